"""Exact float32 building blocks in numpy: every function rounds as the named instruction does."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable
from functools import cache

import numpy as np

F32 = np.float32
Array = np.ndarray


def fma(a: Array, b: Array, c: Array) -> Array:
    """a*b + c rounded once, to float32.

    The product of two float32 is exact in float64; the sum is rounded to odd there, which makes the second rounding
    harmless (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    p = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        s = p + c
        t = s - p
        error = (p - (s - t)) + (c - t)
        bits = np.asarray(s).view(np.int64)
        even = (bits & 1) == 0
        inexact = np.isfinite(s) & (error != 0) & even
        s = np.where(inexact, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s)
        return s.astype(F32)


def multiply_add(a: Array, b: Array, c: Array, fused: bool) -> Array:
    """a*b + c with one rounding or with two."""
    return fma(a, b, c) if fused else (np.asarray(a, F32) * np.asarray(b, F32) + np.asarray(c, F32)).astype(F32)


def correctly_rounded(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """float32 function from a float64 one: right but for the rare case near the middle of two float32."""

    def rounded(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(x.astype(np.float64)).astype(F32)

    return rounded


def exp_sleef(x: Array) -> Array:
    """SLEEF's expf of 1.0 ulp (Sleef_expf_u10): argument reduction by ln 2 in two parts, polynomial of degree 6."""
    with np.errstate(all="ignore"):
        q = np.rint(x * F32(1.442695040888963407))
        s = fma(q, F32(-0.693145751953125), x)
        s = fma(q, F32(-1.428606765330187045e-06), s)
        u = np.full_like(s, 0.000198527617612853646278381)
        for c in (0.00139304355252534151077271, 0.00833336077630519866943359, 0.0416664853692054748535156,
                  0.166666671633720397949219, 0.5):  # fmt: skip
            u = fma(u, s, F32(c))
        u = F32(1) + fma(s * s, u, s)
        result = np.ldexp(u, np.clip(q, -300, 300).astype(np.int32)).astype(F32)
        return np.where(x < -104, F32(0), np.where(x > 100, F32(np.inf), result)).astype(F32)


def exp_u20(x: Array) -> Array:
    """ATen's Vectorized<float>::exp_u20: argument clamped to the finite range, polynomial of degree 5."""
    with np.errstate(all="ignore"):
        low, high = F32(-87.33654474), F32(88.72283905206835)
        clamped = np.minimum(np.maximum(x, low), high)
        n = np.floor(fma(clamped, F32(1.44269504088896341), F32(0.5)))
        r = fma(-n, F32(0.693147180559945309), clamped)
        u = fma(r, F32(0.00828929059), F32(0.0418978221))
        for c in (0.166676521, 0.499991506, 0.999999701, 1.0):
            u = fma(r, u, F32(c))
        scale = np.ldexp(F32(1), (n - 1).astype(np.int32)).astype(F32)
        return np.where(x < low, F32(0), (u * scale) * F32(2)).astype(F32)


@cache
def libm(name: str) -> Callable[[Array], Array] | None:
    """A float function of this machine's C library (`expf`), element by element; None if it has none."""
    path = ctypes.util.find_library("m")
    try:
        function = getattr(ctypes.CDLL(path), name)
    except (AttributeError, OSError, TypeError):
        return None
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]

    def apply(x: Array) -> Array:
        return np.array([function(float(v)) for v in x.ravel()], F32).reshape(x.shape)

    return apply


_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf64(x: Array) -> Array:
    """erf in double precision."""
    return _erf(x) if x.size else x


def erf_polynomial(x: Array) -> Array:
    """ATen's Vectorized<float>::erf on AVX2 and AVX-512: Abramowitz and Stegun 7.1.26 with exp_u20."""
    with np.errstate(all="ignore"):
        sign = np.signbit(x)
        a = np.abs(x)
        t = (F32(1) / fma(F32(0.3275911), a, F32(1))).astype(F32)
        u = fma(F32(1.061405429), t, F32(-1.453152027))
        for c in (1.421413741, -0.284496736, 0.254829592):
            u = fma(u, t, F32(c))
        e = exp_u20(-(x * x))
        result = fma(-(e * t).astype(F32), u, F32(1))
        return np.where(sign, -result, result).astype(F32)
