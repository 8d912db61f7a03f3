"""What served each op of a program on the device, and on which models of system libraries its results rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import registry, strictness
from . import tier
from .mode import leaves, operator_name

ORACLE, COMPOSITE, VIEW = "oracle", "composite", "view"


@dataclass
class Served:
    """Calls of one op by the tier that served them, and what was modelled in the oracle's."""

    calls: Counter[str] = field(default_factory=Counter)
    modelled: set[str] = field(default_factory=set)


class Report(TorchDispatchMode):
    """Notes every op that runs on densecore tensors inside the `with`.

    Tiers: `kernel` and `exact` as in `densecore coverage`, `oracle` for the reference wheel, `view` for metadata alone,
    `composite` for what torch makes of other ops. In the modes `error` and `oracle`, the ones it is for, nothing else runs on
    the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ops: dict[str, Served] = {}

    def __enter__(self) -> Report:
        if strictness.get_uncertified() not in ("error", "oracle"):
            raise ValueError(f"a report needs the mode error or oracle for uncertified ops, not {strictness.get_uncertified()}")
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = tier.calls.total()
        result = func(*args, **kwargs)
        tensors = [v for v in (*leaves(args, kwargs), *leaves((result,), {})) if isinstance(v, torch.Tensor)]
        if any(t.device.type == "densecore" for t in tensors):
            self._note(func, tensors, in_oracle=tier.calls.total() > before)
        return result

    def _note(self, func: Any, tensors: list[torch.Tensor], in_oracle: bool) -> None:
        name = operator_name(func)
        served = self.ops.setdefault(name, Served())
        served.calls[ORACLE if in_oracle else _tier(func, name, tensors)] += 1
        if in_oracle:
            served.modelled |= tier.latest.provenance

    def tiers(self) -> Counter[str]:
        """Calls by tier."""
        return sum((served.calls for served in self.ops.values()), Counter())

    def modelled(self) -> set[str]:
        """Modelled functions that the oracle's results rest on."""
        return set().union(*(served.modelled for served in self.ops.values()))

    def lines(self) -> list[str]:
        """The report as text: a summary, then the ops that ran in the oracle."""
        total = self.tiers()
        tiers = ", ".join(f"{count} {name}" for name, count in total.most_common())
        out = [f"{total.total()} calls of {len(self.ops)} ops: {tiers}"]
        for name, served in sorted(self.ops.items()):
            if served.calls[ORACLE]:
                rests = f", modelled: {', '.join(sorted(served.modelled))}" if served.modelled else ""
                out.append(f"  {name} {served.calls[ORACLE]}{rests}")
        return out


def _tier(func: Any, name: str, tensors: list[torch.Tensor]) -> str:
    if func.is_view or torch.Tag.inplace_view in func.tags:
        return VIEW
    op = registry.get(name)
    found = {op.tier(t.dtype) for t in tensors if t.device.type == "densecore"}
    return next((tier for tier in (registry.KERNEL, registry.EXACT) if tier in found), COMPOSITE)
