"""gelu, silu and tanh's gradient: which erf, exp or tanh, which multiply-adds are fused, what the tail does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product

import numpy as np

from ...replay import Call
from ..arith import F32, Array, fma, multiply_add
from ..functions import (
    ERFS,
    EXPONENTIALS,
    TANHS,
    Function,
    correctly_rounded,
    erf64,
    erf_onednn,
    erf_polynomial,
    exp_onednn,
    exp_sleef,
    with_libm,
)
from ..model import GRAIN, Family, Model, argument, fusion_words, numpy_of
from .pointwise import Lazy, body_and_tail

SQRT_HALF = F32(0.70710678118654752440)
SQRT_TWO_OVER_PI = F32(0.79788456080286535588)
PDF_SCALE = F32(0.39894228040143267794)
KAPPA = F32(0.044715)
GELU_THREADED = 16384  # gelu's loop is divided among all threads from here on


def _lazy(function: Callable[..., Array], *args: object) -> Lazy:
    return cache(partial(function, *args))


def _forms(functions: dict[str, tuple], formula: Callable[..., Array], *tensors: Array) -> dict[str, Lazy]:
    """A form for every choice of functions, fused and rounded."""
    return {
        f"{words}, {fusion_words(fused)}": _lazy(formula, *chosen, fused, *tensors)
        for (words, chosen), fused in product(functions.items(), (False, True))
    }


def _models(call: Call, vector: dict[str, Lazy], scalar: dict[str, Lazy], size: int, threaded: int = 0) -> Iterator[Model]:
    grain = max(size // 8, 1) if threaded and size > threaded else GRAIN
    yield from body_and_tail(vector, scalar, size, grain, "function")


def _scalar_functions(name: str, exact: Function) -> dict[str, Function]:
    """What a loop's tail may call: the C library of this machine or a correctly rounded function (Apple's, nearly)."""
    return with_libm({f"{name} correctly rounded": correctly_rounded(exact)}, name)


# -- gelu -----------------------------------------------------------------------------------------------------------


def _gelu(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    if argument(call, 1, "approximate", "none") == "tanh":
        vector = _forms({words: (f,) for words, f in TANHS.items()}, _gelu_tanh, x)
        scalar = _forms({words: (f,) for words, f in _scalar_functions("tanh", np.tanh).items()}, _gelu_tanh, x)
    else:
        vector = {words: _lazy(_gelu_erf, erf, x) for words, erf in ERFS.items()}
        vector["erf by a table of polynomials (oneDNN on AVX-512)"] = _lazy(_gelu_onednn_table, x)
        vector["erf by Abramowitz and Stegun, fused (oneDNN on AVX2)"] = _lazy(_gelu_onednn, x)
        scalar = {words: _lazy(_gelu_erf, erf, x) for words, erf in _scalar_functions("erf", erf64).items()}
    yield from _models(call, vector, scalar, x.size, GELU_THREADED)


def _gelu_erf(erf: Function, x: Array) -> Array:
    return x * F32(0.5) * (F32(1) + erf(x * SQRT_HALF))


def _gelu_onednn_table(x: Array) -> Array:
    return x * (erf_onednn(x) + F32(1)) * F32(0.5)


def _gelu_onednn(x: Array) -> Array:
    half = x * F32(0.5)
    return fma(half, erf_polynomial(x * SQRT_HALF, exp_onednn), half)


def _inner(fused: bool, x: Array) -> Array:
    return SQRT_TWO_OVER_PI * multiply_add(KAPPA, x * x * x, x, fused)


def _gelu_tanh(tanh: Function, fused: bool, x: Array) -> Array:
    return F32(0.5) * x * (F32(1) + tanh(_inner(fused, x)))


def _gelu_backward(call: Call) -> Iterator[Model]:
    dy, x = (numpy_of(tensor) for tensor in call.inputs)
    if argument(call, 2, "approximate", "none") == "tanh":
        vector = _forms({words: (f,) for words, f in TANHS.items()}, _gelu_tanh_gradient, dy, x)
        for words, tanh in TANHS.items():
            vector[f"{words}, fused multiply-add, the last one on the left"] = _lazy(_gelu_tanh_gradient, tanh, True, dy, x, True)
        scalar = _forms({words: (f,) for words, f in _scalar_functions("tanh", np.tanh).items()}, _gelu_tanh_gradient, dy, x)
    else:
        vector = _forms({words: (erf, exp_sleef) for words, erf in ERFS.items()}, _gelu_erf_gradient, dy, x)
        vector["erf by Abramowitz and Stegun, fused (oneDNN)"] = _lazy(_gelu_onednn_gradient, dy, x)
        exps = list(_scalar_functions("exp", np.exp).values())
        erfs = zip(_scalar_functions("erf", erf64).items(), exps, strict=False)
        scalar = _forms({words: (erf, exp) for (words, erf), exp in erfs}, _gelu_erf_gradient, dy, x)
    yield from _models(call, vector, scalar, x.size, GELU_THREADED)


def _gelu_erf_gradient(erf: Function, exp: Function, fused: bool, dy: Array, x: Array) -> Array:
    cdf = F32(0.5) * (F32(1) + erf(x * SQRT_HALF))
    pdf = PDF_SCALE * exp(x * x * F32(-0.5))
    return dy * multiply_add(x, pdf, cdf, fused)


def _gelu_onednn_gradient(dy: Array, x: Array) -> Array:
    root = x * SQRT_HALF
    slope = root * F32(0.564189554) * exp_onednn(-(root * root)) + F32(0.5)
    return fma(erf_polynomial(root, exp_onednn), F32(0.5), slope) * dy


def _gelu_tanh_gradient(tanh: Function, fused: bool, dy: Array, x: Array, left: bool = False) -> Array:
    t = tanh(_inner(fused, x))
    slope = SQRT_TWO_OVER_PI * multiply_add(F32(3) * KAPPA, x * x, F32(1), fused)
    part = F32(0.5) * x * multiply_add(-t, t, F32(1), fused)
    if left:
        return dy * fma(part, slope, F32(0.5) * (F32(1) + t))
    return dy * (F32(0.5) * (F32(1) + t) + part * slope)


# -- silu, tanh -----------------------------------------------------------------------------------------------------


def _silu(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    vector = {words: _lazy(_silu_value, exp, x) for words, exp in EXPONENTIALS.items()}
    scalar = {words: _lazy(_silu_value, exp, x) for words, exp in _scalar_functions("exp", np.exp).items()}
    yield from _models(call, vector, scalar, x.size)


def _silu_value(exp: Function, x: Array) -> Array:
    return x / (F32(1) + exp(-x))


def _silu_backward(call: Call) -> Iterator[Model]:
    dy, x = (numpy_of(tensor) for tensor in call.inputs)
    vector = _forms({words: (exp,) for words, exp in EXPONENTIALS.items()}, _silu_gradient, dy, x)
    scalar = _forms({words: (exp,) for words, exp in _scalar_functions("exp", np.exp).items()}, _silu_gradient, dy, x)
    yield from _models(call, vector, scalar, x.size)


def _silu_gradient(exp: Function, fused: bool, dy: Array, x: Array) -> Array:
    sigmoid = F32(1) / (F32(1) + exp(-x))
    return dy * sigmoid * multiply_add(x, F32(1) - sigmoid, F32(1), fused)


def _tanh_backward(call: Call) -> Iterator[Model]:
    dy, y = (numpy_of(tensor) for tensor in call.inputs)
    forms = {fusion_words(fused): _lazy(_tanh_gradient, fused, dy, y) for fused in (False, True)}
    yield from _models(call, forms, forms, y.size)


def _tanh_gradient(fused: bool, dy: Array, y: Array) -> Array:
    return dy * multiply_add(-y, y, F32(1), fused)


FAMILIES: dict[str, Family] = {
    "gelu": _gelu, "gelu_backward": _gelu_backward, "silu": _silu, "silu_backward": _silu_backward,
    "tanh_backward": _tanh_backward,
}  # fmt: skip
