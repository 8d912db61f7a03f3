"""Logarithm and exponential as a probe tries them, in numpy."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Iterator

import numpy as np

from ..explain import arith
from ..explain import functions as known
from ..explain.arith import F32, Array

Pair = tuple[Array, Array]


def _add(x: Array, y: Array) -> Pair:
    """x + y and what rounding it lost."""
    s = x + y
    v = s - x
    return s, (x - (s - v)) + (y - v)


def _divide(n: Pair, d: Pair) -> Pair:
    t = (F32(1) / d[0]).astype(F32)
    s = n[0] * t
    u = arith.fma(t, n[0], -s)
    v = arith.fma(-d[1], t, arith.fma(-d[0], t, np.ones_like(t)))
    return s, arith.fma(s, v, arith.fma(n[1], t, u))


def _add_ordered(x: Pair, y: Pair) -> Pair:
    s = x[0] + y[0]
    return s, (((x[0] - s) + y[0]) + x[1]) + y[1]


def log_sleef(x: Array) -> Array:
    """SLEEF's logf of 1.0 ulp for positive finite values: e ln 2 + 2 atanh((m - 1)/(m + 1)) in pairs of floats."""
    x = np.asarray(x, F32)
    exponent = ((x * F32(1 / 0.75)).view(np.int32) >> 23 & 0xFF) - 127
    m = (x.view(np.int32) - (exponent << 23)).view(F32)
    e = exponent.astype(F32)
    r = _divide(_add(F32(-1), m), _add(F32(1), m))
    high, low = F32(0.69314718246459960938), F32(-1.904654323148236017e-09)
    s = high * e
    total = s, arith.fma(np.full_like(e, low), e, arith.fma(np.full_like(e, high), e, -s))
    square = r[0] * r[0]
    t = np.full_like(square, 0.3027294874)
    for c in (0.3996108174, 0.6666694880):
        t = arith.fma(t, square, F32(c))
    total = _add_ordered(total, (r[0] * F32(2), r[1] * F32(2)))
    total = _add_ordered(total, (square * r[0] * t, np.zeros_like(t)))
    return total[0] + total[1]


Function = Callable[[Array], Array]
_other_library: tuple[str, Function] | None = None


@contextlib.contextmanager
def library(name: str, expf: Function) -> Iterator[None]:
    """While it lasts the probed machine's C library is not this one's: its name among the profile's models, and its expf."""
    global _other_library
    _other_library = name, expf
    try:
        yield
    finally:
        _other_library = None


def emulated() -> bool:
    """Whether the probed machine is not this one."""
    return _other_library is not None


def exponentials() -> dict[str, Function]:
    """The profile's choices of `exp`; "libm" is the probed machine's C library."""
    found = {"sleef_u10": known.exp_sleef, "exp_u20": known.exp_u20}
    expf = _other_library[1] if _other_library else known.libm("expf")
    return {**found, "libm": expf} if expf is not None else found


def libm_name() -> str | None:
    """The name of the probed machine's C library among the profile's models; None for another one."""
    if _other_library:
        return _other_library[0]
    if platform.system() == "Darwin":
        return "apple"
    name, version = platform.libc_ver()
    recent = tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) >= (2, 27)
    return "glibc" if name == "glibc" and recent else None
