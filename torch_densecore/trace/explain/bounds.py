"""Is the size of a difference explained by rounding? A float64 reference and an error bound for each element."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..replay import Call, run
from .arith import Array
from .model import base_of

UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}

# inner products and sums: |error| <= n*u*sum|terms| (Higham, Accuracy and Stability, 3.1), n additions
LINEAR = ("sum", "mean", "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "cumsum")
NORMS = ("linalg_vector_norm", "_foreach_norm")  # the root halves the relative error of the sum of squares
# single operations, and functions that their libraries promise to one unit in the last place
ONE_ULP = ("sqrt", "rsqrt", "reciprocal", "div", "addcdiv")
# functions of 20 ulp at most: the least accurate that ATen calls by such a name
FUNCTIONS = ("exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "sigmoid", "erf")
# elsewhere: a few roundings of the inputs, after which terms of a gradient cancel, and of the output's largest magnitude;
# a bound by experience, not by proof
LOOSE_FACTOR = 64
FAILURES = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


@dataclass
class Bound:
    """Largest error of a side against float64, in units of the bound: at most 1 is rounding. words: the bound's name."""

    used: float
    proven: bool
    words: str

    @property
    def within(self) -> bool:
        return self.used <= 1


def check(call: Call, outputs: list[torch.Tensor]) -> Bound | None:
    """How much of its rounding bound a side uses; None when the operator has no float64 reference."""
    if any(output.dtype not in UNIT for output in outputs):
        return None
    base = base_of(call).rstrip("_")
    try:
        references = _run_in_double(call)
        bounds = [_bound(base, call, outputs, references, i) for i in range(len(references))]
    except FAILURES:
        return None
    used = [_used(o.double().numpy(), r, bound) for o, r, (bound, _, _) in zip(outputs, references, bounds, strict=True)]
    known = [value for value in used if value is not None]
    return Bound(max(known), *bounds[0][1:]) if known else None


def _bound(base: str, call: Call, outputs: list[torch.Tensor], references: list[Array], i: int) -> tuple[Array, bool, str]:
    """(bound of each element of output i, whether it is proven, its name)."""
    output, reference = outputs[i], references[i]
    unit = UNIT[output.dtype]
    if base in LINEAR:
        magnitude = _run_in_double(call, absolute=True)[0]
        return (_terms(base, call, output) + 2) * unit * magnitude, True, "rounding bound of the sum"
    if base in NORMS:
        terms = max(tensor.numel() for tensor in call.inputs)
        return (terms + 3) * unit * reference, True, "rounding bound of the norm"
    if base in ONE_ULP or base in FUNCTIONS:
        ulps = 1 if base in ONE_ULP else 20
        return (2 * ulps + 1) * unit * np.abs(reference), False, f"{ulps} ulp of the exact value"
    change = np.abs(_run_in_double(call, rounded=unit)[i] - reference) + unit * np.abs(reference)
    loose = LOOSE_FACTOR * float(np.max(change, initial=0.0, where=np.isfinite(change)))
    return np.full_like(reference, loose), False, f"{LOOSE_FACTOR} roundings of the inputs and the largest value"


def _terms(base: str, call: Call, output: torch.Tensor) -> float:
    """Terms of one sum."""
    if base in ("mm", "addmm", "mv", "addmv", "dot"):
        return call.inputs[-1].shape[0]
    if base in ("bmm", "baddbmm"):
        return call.inputs[-1].shape[1]
    return max(tensor.numel() for tensor in call.inputs) / max(output.numel(), 1)


def _used(output: Array, reference: Array, bound: Array) -> float | None:
    if output.shape != reference.shape:
        return None
    error = np.abs(output - reference)
    finite = np.isfinite(error) & np.isfinite(bound)
    if not finite.any():
        return None
    tiny = np.finfo(np.float32).tiny
    return float((error[finite] / np.maximum(bound[finite], tiny)).max())


def _run_in_double(call: Call, *, absolute: bool = False, rounded: float = 0.0) -> list[Array]:
    """The outputs in float64. absolute: of the inputs' magnitudes; rounded: of inputs that are changed by as much, up and down."""
    inputs = [t.double() if t.is_floating_point() else t for t in call.inputs]
    if absolute:
        inputs = [t.abs() if t.is_floating_point() else t for t in inputs]
    if rounded:
        random = np.random.default_rng(0)
        signs = [torch.from_numpy(random.choice((-1.0, 1.0), t.shape)) for t in inputs]
        inputs = [t * (1 + rounded * s) if t.is_floating_point() else t for t, s in zip(inputs, signs, strict=True)]
    rng = call.event.rng
    if rng is not None and rng[0] != rng[1]:
        raise ValueError("a random operator has no float64 reference")
    return [output.double().numpy() for output in run(Call(call.event, inputs, [], None))]
