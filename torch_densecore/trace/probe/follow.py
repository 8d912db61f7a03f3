"""Computing as a probed machine does: the device's profile, and the same in numpy as a check of the probe itself."""

from __future__ import annotations

import platform
from typing import Any

import torch

from ..errors import TraceError
from ..explain.explanation import model_outputs
from ..explain.models import Model, candidates
from ..replay import Call
from .functions import emulated, libm_name


def device_profile(probe: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """(a profile as `DENSECORE_PROFILE` takes it, what of the probe the device cannot follow)."""
    environment, table, ops = probe["environment"], probe["products"]["table"], probe["fields"]
    release = environment["torch"]["version"].partition("+")[0]
    system = _system()
    left = [f"{op}: {entry['unknown']}" for op, entry in ops.items() if "unknown" in entry]
    if table is None:
        left.append("matrix products: no order was found, or there was no time")
    else:
        left += [f"{where(rule)}: {rule['source']}" for rule in table["rules"] if rule["order"] == "unknown"]
    left.append("every other operator with a kernel of its own: not probed for the device")
    profile = {
        "name": f"probe-torch-{release}-{system}",
        "torch": release,
        "system": system,
        "threads": environment["threads"]["intra_op"],
        "casts": "saturate" if probe["rules"]["float to int32"] == SATURATED else "x86",
        **({"libm": name} if (name := libm_name()) else {}),
        **({"blas": table} if table else {}),
        "ops": ops,
    }
    return profile, left


# 1e10, -1e10, inf, -inf, nan, 300 and -1 as Arm converts them to int32
SATURATED = [2147483647, -2147483648, 2147483647, -2147483648, 0, 300, -1]


def _system() -> str:
    if emulated():
        return "macos-arm64"
    name = platform.system().lower()
    return f"{'macos' if name == 'darwin' else name}-{platform.machine()}"


def where(rule: dict[str, Any]) -> str:
    """Which requests a rule is for, in words."""
    least = ", ".join(f"{name.removeprefix('minimum_')} >= {size}" for name, size in rule.items() if name.startswith("minimum_"))
    return f"{rule['routine']} {rule.get('transa', rule.get('trans', ''))} {least}".strip()


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
