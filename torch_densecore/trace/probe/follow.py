"""Computing as a probed machine does: the device's profile, and the same in numpy as a check of the probe itself."""

from __future__ import annotations

import platform
from typing import Any

import torch

from ..errors import TraceError
from ..explain.explanation import model_outputs
from ..explain.models import Model, candidates
from ..replay import Call


def device_profile(probe: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(a profile as `DENSECORE_PROFILE` takes it, what of the probe it cannot express)."""
    table = probe["products"]["table"]
    usable = {name for name, order in table["orders"].items() if "unsupported" not in order}
    rules, left = [], []
    for rule in table["rules"]:
        names = {rule["order"], rule.get("odd_last_column", rule["order"])}
        if names <= usable:
            rules.append(rule)
        else:
            left.append(
                f"{rule['routine']} {rule.get('transa') or rule.get('trans') or ''}: {', '.join(sorted(names - usable))}"
            )
    if probe["lanes"] not in (4, 8):
        left.append(f"vectors of {probe['lanes']} floats")
    environment = probe["environment"]
    release = environment["torch"]["version"].partition("+")[0]
    system = f"{'macos' if platform.system() == 'Darwin' else platform.system().lower()}-{platform.machine()}"
    profile = {
        "name": f"probed-torch-{release}-{system}",
        "torch": release,
        "system": system,
        "threads": environment["threads"]["intra_op"],
        "lanes": probe["lanes"],
        "blas": {**table, "name": "probed", "rules": rules, "orders": {n: table["orders"][n] for n in sorted(usable)}},
    }
    return profile, left


def family(models: list[Model]) -> str:
    """Which candidates were tried: a sum over rows has others than a sum over columns."""
    return ", ".join(name for name, _ in models[-1].traits) + f": {models[-1].words()}"


class Follower:
    """Runs recorded calls as a probe says: by the models that reproduced that operator in every probed example."""

    def __init__(self, probe: dict[str, Any]) -> None:
        self._allowed: dict[tuple[str, str], set[str]] = {}
        for entry in probe["models"]:
            key, fit = (entry["op"], entry["tried"]), set(entry["fit"])
            self._allowed[key] = self._allowed[key] & fit if key in self._allowed else fit

    def run(self, call: Call) -> list[torch.Tensor | None]:
        """The call's outputs. Raises `TraceError` when the probe found no model for the operator."""
        models = candidates(call)
        allowed = self._allowed.get((call.site.op, family(models)), set())
        for model in models:
            if model.words() in allowed:
                return model_outputs(model, call)
        raise TraceError(f"the probe found no arithmetic that fits {call.site.op} in all of its examples")
