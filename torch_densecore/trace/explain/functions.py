"""Elementary functions of float32 as the libraries under torch compute them: SLEEF, ATen's polynomials, oneDNN, MKL, libm.

The algorithms and constants are those of the libraries' public sources; each is tested against torch on a machine that uses it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from .arith import F32, Array, fma, multiply_add

Function = Callable[[Array], Array]
GROUP = 4  # lanes of NEON's Vectorized<float>


def correctly_rounded(function: Function) -> Function:
    """float32 function from a float64 one: right but for the rare case near the middle of two float32."""

    def rounded(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(x.astype(np.float64)).astype(F32)

    return rounded


@cache
def libm(name: str) -> Function | None:
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


def _horner(x: Array, *coefficients: float) -> Array:
    """Polynomial with a fused multiply-add for each step, highest degree first."""
    value = np.full_like(x, F32(coefficients[0]))
    for c in coefficients[1:]:
        value = fma(value, x, F32(c))
    return value


def _power_of_two(n: Array) -> Array:
    return np.ldexp(F32(1), np.clip(np.nan_to_num(n), -300, 300).astype(np.int32)).astype(F32)


# -- exp ------------------------------------------------------------------------------------------------------------


def exp_sleef(x: Array) -> Array:
    """SLEEF's expf of 1.0 ulp (Sleef_expf_u10): argument reduction by ln 2 in two parts, polynomial of degree 6."""
    with np.errstate(all="ignore"):
        q = np.rint(x * F32(1.442695040888963407))
        s = fma(q, F32(-0.693145751953125), x)
        s = fma(q, F32(-1.428606765330187045e-06), s)
        u = _horner(
            s, 0.000198527617612853646278381, 0.00139304355252534151077271, 0.00833336077630519866943359,
            0.0416664853692054748535156, 0.166666671633720397949219, 0.5,
        )  # fmt: skip
        u = F32(1) + fma(s * s, u, s)
        result = np.ldexp(u, np.clip(np.nan_to_num(q), -300, 300).astype(np.int32)).astype(F32)
        return np.where(x < -104, F32(0), np.where(x > 100, F32(np.inf), result)).astype(F32)


def _exp_degree_5(x: Array, fused_argument: bool) -> Array:
    low, high = F32(-87.33654474), F32(88.72283905206835)
    with np.errstate(all="ignore"):
        clamped = np.minimum(np.maximum(x, low), high)
        n = np.floor(multiply_add(clamped, F32(1.44269504088896341), F32(0.5), fused_argument))
        r = fma(-n, F32(0.693147180559945309), clamped)
        u = _horner(r, 0.00828929059, 0.0418978221, 0.166676521, 0.499991506, 0.999999701, 1.0)
        return np.where(x < low, F32(0), (u * _power_of_two(n - 1)) * F32(2)).astype(F32)


def exp_u20(x: Array) -> Array:
    """ATen's Vectorized<float>::exp_u20 on x86: argument clamped to the finite range, polynomial of degree 5."""
    return _exp_degree_5(x, fused_argument=True)


def exp_onednn(x: Array) -> Array:
    """oneDNN's exp for x86: the polynomial of `exp_u20`, argument reduction with one rounding more."""
    return _exp_degree_5(x, fused_argument=False)


def exp_neon(x: Array) -> Array:
    """ATen's Vectorized<float>::exp_u20 on NEON (Arm's optimized routines), torch 2.6 and later.

    An argument beyond 87.3 sends its whole group of 4 lanes (along the last axis) to SLEEF's function.
    """
    part = F32(float.fromhex("0x1.fffffep-2"))  # the float below 0.5: ties are rounded away from zero
    with np.errstate(all="ignore"):
        n = np.trunc(x * F32(1.442695040888963407) + np.copysign(part, x)).astype(F32)
        r = fma(-n, F32(float.fromhex("0x1.62e4p-1")), x)
        r = fma(-n, F32(float.fromhex("0x1.7f7d1cp-20")), r)
        square, power = r * r, _power_of_two(n)
        p = _horner(r, float.fromhex("0x1.0e4020p-7"), float.fromhex("0x1.573e2ep-5"))
        q = _horner(r, float.fromhex("0x1.555e66p-3"), float.fromhex("0x1.fffdb6p-2"))
        result = fma(fma(fma(p, square, q), square, r * F32(float.fromhex("0x1.ffffecp-1"))), power, power)
        special = _spread(~(np.abs(x) <= F32(float.fromhex("0x1.5d5e2ap+6"))))
        return np.where(special, exp_sleef(x), result) if special.any() else result


def _spread(mask: Array) -> Array:
    """True in every lane of a group of 4 in which any lane is."""
    flat = mask.reshape(-1, mask.shape[-1]) if mask.ndim else mask.reshape(1, 1)
    padded = np.pad(flat, ((0, 0), (0, -flat.shape[1] % GROUP)))
    groups = padded.reshape(flat.shape[0], -1, GROUP).any(-1)
    return np.repeat(groups, GROUP, -1)[:, : flat.shape[1]].reshape(mask.shape)


def with_libm(known: dict[str, Function], name: str) -> dict[str, Function]:
    """The functions, and the C library's of this machine where it has one (generic x86 code, loop tails)."""
    host = libm(f"{name}f")
    return known if host is None else {**known, f"{name} of this machine's C library": host}


EXPONENTIALS: dict[str, Function] = with_libm(
    {
        "exp by SLEEF (1.0 ulp)": exp_sleef,
        "exp by ATen's exp_u20 for x86": exp_u20,
        "exp by ATen's exp_u20 for NEON": exp_neon,
        "exp correctly rounded": correctly_rounded(np.exp),
    },
    "exp",
)


# -- erf ------------------------------------------------------------------------------------------------------------

_erf = np.vectorize(math.erf, otypes=[np.float64])


def erf64(x: Array) -> Array:
    """erf in double precision."""
    return _erf(x) if x.size else x


def erf_polynomial(x: Array, exp: Function) -> Array:
    """ATen's Vectorized<float>::erf: Abramowitz and Stegun 7.1.26 with one of the exponentials."""
    with np.errstate(all="ignore"):
        t = (F32(1) / fma(F32(0.3275911), np.abs(x), F32(1))).astype(F32)
        u = _horner(t, 1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
        result = fma(-(exp(-(x * x)) * t).astype(F32), u, F32(1))
        return _with_sign(result, x)


def _with_sign(magnitude: Array, sign: Array) -> Array:
    return np.where(np.signbit(sign), -magnitude, magnitude).astype(F32)


ERFS: dict[str, Function] = {
    "erf by ATen's polynomial with SLEEF's exp": lambda x: erf_polynomial(x, exp_sleef),
    "erf by ATen's polynomial with exp_u20 for NEON": lambda x: erf_polynomial(x, exp_neon),
    "erf by ATen's polynomial with exp_u20 for x86": lambda x: erf_polynomial(x, exp_u20),
    "erf correctly rounded": correctly_rounded(erf64),
}


@cache
def _onednn_table() -> Array:
    """Coefficients (degree, interval) of oneDNN's minimax polynomials for erf(x / sqrt 2), as bits."""
    lines = Path(__file__).with_name("onednn_erf.csv").read_text(encoding="ascii").split()
    return np.array([[int(word, 16) for word in line.split(",")] for line in lines], np.uint32).view(F32)


def erf_onednn(x: Array) -> Array:
    """erf(x / sqrt 2) of oneDNN's gelu on AVX-512: 25 polynomials of degree 5, chosen by two bits of the mantissa."""
    magnitude = np.abs(x)
    interval = ((magnitude.view(np.int32).astype(np.int64) - 0x3DE00001) >> 21).clip(1, 24)
    table = _onednn_table()
    interval = np.where(magnitude > F32(5.542594), 23, interval)  # 23: the constant 1
    value = table[5][interval]
    for degree in range(4, -1, -1):
        value = fma(value, magnitude, table[degree][interval])
    return (value.view(np.uint32) ^ (x.view(np.uint32) & np.uint32(1 << 31))).view(F32)


# -- tanh -----------------------------------------------------------------------------------------------------------


def tanh_sleef(x: Array) -> Array:
    """SLEEF's tanhf of 1.0 ulp: (e - 1/e) / (e + 1/e) with e = exp |x| in double-float."""
    with np.errstate(all="ignore"):
        e = _exp_pair(np.abs(x))
        inverse = _reciprocal_pair(e)
        upper = _add_pairs(e, (-inverse[0], -inverse[1]))
        high, low = _divide_pairs(upper, _add_pairs(e, inverse))
        y = high + low
        y = np.where((np.abs(x) > F32(8.664339742)) | np.isnan(y), F32(1), y)
        return np.where(np.isnan(x), x, _with_sign(y, x)).astype(F32)


Pair = tuple[Array, Array]  # an unevaluated sum, high + low


def _exp_pair(x: Array) -> Pair:
    n = np.rint(x * F32(1.442695040888963407))
    s = _add_any((x, np.zeros_like(x)), n * F32(-0.693145751953125))
    s = _add_any(s, n * F32(-1.428606765330187045e-06))
    u = _horner(s[0], 0.1980960224e-3, 0.1394256484e-2, 0.8333456703e-2, 0.4166637361e-1)
    t = _add_any(_multiply(s, (u, np.zeros_like(u))), F32(0.166666659414234244790680580464e0))
    t = _add_any(_multiply(s, t), F32(0.5))
    t = _add_pairs(s, _multiply(_square(s), t))
    one = np.ones_like(x)
    total = one + t[0]
    power = _power_of_two(n)
    return total * power, (((one - total) + t[0]) + t[1]) * power


def _add_any(x: Pair, y: Array) -> Pair:
    """x + y whatever their sizes."""
    s = x[0] + y
    v = s - x[0]
    return s, ((x[0] - (s - v)) + (y - v)) + x[1]


def _add_pairs(x: Pair, y: Pair) -> Pair:
    """x + y for |x| >= |y|."""
    s = x[0] + y[0]
    return s, (((x[0] - s) + y[0]) + x[1]) + y[1]


def _multiply(x: Pair, y: Pair) -> Pair:
    s = x[0] * y[0]
    return s, fma(x[0], y[1], fma(x[1], y[0], fma(x[0], y[0], -s)))


def _square(x: Pair) -> Pair:
    s = x[0] * x[0]
    return s, fma(x[0] + x[0], x[1], fma(x[0], x[0], -s))


def _divide_pairs(n: Pair, d: Pair) -> Pair:
    t = F32(1) / d[0]
    s = n[0] * t
    u = fma(t, n[0], -s)
    v = fma(-d[1], t, fma(-d[0], t, F32(1)))
    return s, fma(s, v, fma(n[1], t, u))


def _reciprocal_pair(d: Pair) -> Pair:
    s = F32(1) / d[0]
    return s, s * fma(-d[1], s, fma(-d[0], s, F32(1)))


TANHS: dict[str, Function] = {
    "tanh by SLEEF (1.0 ulp)": tanh_sleef,
    "tanh correctly rounded": correctly_rounded(np.tanh),
}
