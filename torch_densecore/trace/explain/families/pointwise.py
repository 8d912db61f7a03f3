"""Element by element: special functions, square roots, and multiply-adds whose vector body and tail may round differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from ...replay import Call
from ..arith import F32, Array, fma
from ..estimates import sqrt_from_estimate
from ..functions import (
    Function,
    correctly_rounded,
    erf64,
    erf_polynomial,
    exp_neon,
    exp_sleef,
    exp_u20,
    libm,
    tanh_sleef,
)
from ..model import GRAIN, LANES, THREADS, Family, Model, argument, base_of, model, numpy_of

Lazy = Callable[[], Array]

# -- vector body and scalar tail ------------------------------------------------------------------------------------


def tails(size: int, grain: int = GRAIN) -> dict[str, Array]:
    """Which elements a loop of pairs of vectors leaves to scalar code: words -> mask of the elements.

    Every thread's chunk ends with such a tail (ATen/native/cpu/Loops.h). Empty and repeated masks are left out.
    """
    found: dict[bytes, tuple[str, Array]] = {}
    for lanes, threads in product(LANES, THREADS):
        chunks = min(threads, -(-size // grain)) if size >= grain else 1
        chunk = -(-size // chunks) if size else 1
        place = np.arange(size)
        length = np.minimum(chunk, size - place // chunk * chunk)
        mask = place % chunk >= length - length % (2 * lanes)
        count = f"{int(mask.sum())} elements" if chunks == 1 else f"elements of each of {chunks} thread chunks"
        if mask.any():
            found.setdefault(mask.tobytes(), (f"the last {count}", mask))
    return dict(found.values())


def body_and_tail(
    vector: dict[str, Lazy], scalar: dict[str, Lazy], size: int, grain: int = GRAIN, name: str = "form"
) -> Iterator[Model]:
    """Models of every vector form alone and with every scalar form in its tail."""
    for words, value in vector.items():
        yield model(value, **{name: words})
    for (where, mask), (words, value), (tail_words, tail) in product(tails(size, grain).items(), vector.items(), scalar.items()):
        if words != tail_words:
            yield model(lambda v=value, t=tail, m=mask: _mixed(v(), t(), m), **{name: words, "tail": f"{where} {tail_words}"})


def _mixed(vector: Array, scalar: Array, mask: Array) -> Array:
    return np.where(mask.reshape(vector.shape), scalar, vector)


# -- multiply-adds --------------------------------------------------------------------------------------------------


def _fusable(call: Call) -> Iterator[Model]:
    forms = {words: (lambda v=value: v) for words, value in _FORMS[base_of(call).rstrip("_")](call)}
    size = int(np.prod(call.site.outputs[0]["shape"], dtype=int))
    yield from body_and_tail(forms, forms, size)


def _addcmul_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, t1, t2 = (numpy_of(t) for t in call.inputs)
    value = F32(argument(call, 3, "value", 1))
    yield "rounded products", (x + value * t1 * t2).astype(F32)
    yield "fused last step", fma(value * t1, t2, x)
    yield "value times the rounded product, fused", fma(np.broadcast_to(value, t1.shape), t1 * t2, x)


def _addcdiv_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, t1, t2 = (numpy_of(t) for t in call.inputs)
    value = F32(argument(call, 3, "value", 1))
    yield "value times t1, divided, added", (x + value * t1 / t2).astype(F32)
    yield "value times the quotient, added", (x + value * (t1 / t2)).astype(F32)
    yield "value times the quotient, fused", fma(np.broadcast_to(value, t1.shape), t1 / t2, x)


def _add_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, y = (numpy_of(t) for t in call.inputs)
    alpha = F32(argument(call, 2, "alpha", 1))
    yield "rounded product", (x + alpha * y).astype(F32)
    yield "fused multiply-add", fma(np.broadcast_to(alpha, y.shape), y, x)


def _lerp_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, end = (numpy_of(t) for t in call.inputs[:2])
    weight = F32(argument(call, 2, "weight"))
    near = abs(weight) < 0.5
    factor, base = (weight, x) if near else (weight - F32(1), end)
    yield "rounded product", (base + factor * (end - x)).astype(F32)
    yield "fused multiply-add", fma(np.broadcast_to(factor, x.shape), end - x, base)


_FORMS = {"addcmul": _addcmul_forms, "addcdiv": _addcdiv_forms, "add": _add_forms, "lerp": _lerp_forms}

# -- functions ------------------------------------------------------------------------------------------------------


def _function(name: str, exact: Function, **variants: Function) -> Family:
    def family(call: Call) -> Iterator[Model]:
        x = numpy_of(call.inputs[0])
        yield model(lambda: correctly_rounded(exact)(x), function=f"{name} correctly rounded")
        host = libm(f"{name}f")
        if host is not None and x.size <= 1 << 20:
            yield model(lambda: host(x), function=f"{name} of this machine's C library")
        for words, variant in variants.items():
            yield model(lambda v=variant: v(x), function=f"{name} by {words.replace('_', ' ')}")

    return family


def _reciprocal(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    with np.errstate(all="ignore"):
        yield model(lambda: (F32(1) / x).astype(F32), function="exact division")
        estimate = (1.0 / x.astype(np.float64)).astype(np.float16).astype(F32)
        yield model(lambda: estimate * (F32(2) - x * estimate), function="a Newton step from an estimate")


def _sqrt(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    with np.errstate(all="ignore"):
        inverse = (1.0 / np.sqrt(x.astype(np.float64))).astype(F32)
    yield model(lambda: np.sqrt(x), function="exact square root (IEEE)")
    yield model(lambda: x * inverse, function="x times an inverse square root")
    newton = sqrt_from_estimate(x)
    if newton is not None:
        yield model(lambda: newton, function="two Newton steps from the processor's 12-bit estimate, rounded (MKL)")


def _rsqrt(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    with np.errstate(all="ignore"):
        yield model(lambda: (F32(1) / np.sqrt(x)).astype(F32), function="1 / sqrt(x), each exact")
        inverse = (1.0 / np.sqrt(x.astype(np.float64))).astype(F32)
        yield model(lambda: inverse, function="1 / sqrt(x) rounded once")


FAMILIES: dict[str, Family] = {
    **{name + mark: _fusable for name in _FORMS for mark in ("", "_")},
    "reciprocal": _reciprocal, "sqrt": _sqrt, "sqrt_": _sqrt, "rsqrt": _rsqrt, "rsqrt_": _rsqrt,
    "exp": _function(
        "exp", np.exp, SLEEF=exp_sleef,
        **{"ATen's_exp_u20_for_x86": exp_u20, "ATen's_exp_u20_for_NEON": exp_neon},
    ),
    "erf": _function(
        "erf", erf64,
        **{
            "ATen's_polynomial_with_SLEEF's_exp": lambda x: erf_polynomial(x, exp_sleef),
            "ATen's_polynomial_with_exp_u20_for_NEON": lambda x: erf_polynomial(x, exp_neon),
        },
    ),
    "tanh": _function("tanh", np.tanh, SLEEF=tanh_sleef),
    **{name: _function(name, getattr(np, name)) for name in ("log", "sin", "cos", "log1p", "expm1")},
}  # fmt: skip
