"""Is the size of a difference explained by rounding? A float64 reference and an error bound for each element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..replay import Call, run
from .arith import Array

# inner products and sums: |error| <= n*u*sum|terms| (Higham, Accuracy and Stability, 3.1), n additions
LINEAR = ("sum", "mean", "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "cumsum")
# elsewhere: a few roundings of the largest magnitude in the output; a bound by experience, not by proof
LOOSE_FACTOR = 64
UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-53}


@dataclass
class Bound:
    """Largest error of a side against float64, in units of the bound: at most 1 is rounding."""

    used: float
    proven: bool

    @property
    def within(self) -> bool:
        return self.used <= 1


def check(call: Call, output: torch.Tensor) -> Bound | None:
    """How much of its rounding bound the first output uses; None when the operator has no float64 reference."""
    if output.dtype not in UNIT or output.dtype == torch.float64:
        return None
    base = call.site.op.partition("::")[2].partition(".")[0].rstrip("_")
    try:
        reference = _run_in_double(call, absolute=False)
        if base in LINEAR:
            magnitude = _run_in_double(call, absolute=True)
            terms = max(tensor.numel() for tensor in call.inputs) / max(output.numel(), 1)
            terms = float(call.inputs[-1].shape[0] if base in ("mm", "addmm", "mv", "addmv") else terms)
            bound = (terms + 2) * UNIT[output.dtype] * magnitude
        else:
            bound = np.full_like(reference, LOOSE_FACTOR * UNIT[output.dtype] * float(np.nanmax(np.abs(reference))))
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
    return _used(output.double().numpy(), reference, bound, base in LINEAR)


def _used(output: Array, reference: Array, bound: Array, proven: bool) -> Bound | None:
    if output.shape != reference.shape:
        return None
    error = np.abs(output - reference)
    finite = np.isfinite(error) & np.isfinite(bound)
    if not finite.any():
        return None
    tiny = np.finfo(np.float32).tiny
    return Bound(float((error[finite] / np.maximum(bound[finite], tiny)).max()), proven)


def _run_in_double(call: Call, *, absolute: bool) -> Array:
    inputs = [t.double() if t.is_floating_point() else t for t in call.inputs]
    if absolute:
        inputs = [t.abs() if t.is_floating_point() else t for t in inputs]
    rng = call.event.rng
    if rng is not None and rng[0] != rng[1]:
        raise ValueError("a random operator has no float64 reference")
    return run(Call(call.event, inputs, [], None))[0].double().numpy()
