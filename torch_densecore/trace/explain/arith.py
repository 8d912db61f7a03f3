"""Exact float32 building blocks in numpy: every function rounds as the named instruction does."""

from __future__ import annotations

import numpy as np

F32 = np.float32
Array = np.ndarray


def fma(a: Array, b: Array, c: Array) -> Array:
    """a*b + c rounded once, to float32.

    The product of two float32 is exact in float64. Rounding the sum twice goes wrong only where it first falls on the
    middle of two float32; there it is rounded to odd instead (Boldo and Melquiond, "Emulation of FMA and correctly
    rounded sums", 2008).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        p = np.multiply(a, b, dtype=np.float64)
        s = np.asarray(np.add(p, c, dtype=np.float64))
        middle = (s.view(np.int64) & 0xFFFFFFF) == 0  # all middles, and the float32 themselves
        if middle.any():
            p, c, middle = np.broadcast_arrays(p, np.asarray(c, np.float64), middle)
            s = s.copy()
            s[middle] = _round_to_odd(s[middle], p[middle], c[middle])
        return s.astype(F32)


def _round_to_odd(s: Array, p: Array, c: Array) -> Array:
    """p + c, whose nearest float64 is s: the neighbour with an odd last bit where the sum is not exact."""
    t = s - p
    error = (p - (s - t)) + (c - t)
    inexact = np.isfinite(s) & (error != 0) & ((s.view(np.int64) & 1) == 0)
    return np.where(inexact, np.nextafter(s, np.where(error > 0, np.inf, -np.inf)), s)


def multiply_add(a: Array, b: Array, c: Array, fused: bool) -> Array:
    """a*b + c with one rounding or with two."""
    return fma(a, b, c) if fused else (np.asarray(a, F32) * np.asarray(b, F32) + np.asarray(c, F32)).astype(F32)
