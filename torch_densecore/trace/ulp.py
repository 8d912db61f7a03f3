"""Distance of two floating-point numbers in units in the last place."""

from __future__ import annotations

import numpy as np

# how to read a stored element: (integer type of its bits, sign bit or None for integers)
_SIGNED = {
    "float16": (np.int16, 15), "bfloat16": (np.int16, 15), "float32": (np.int32, 31), "float64": (np.int64, 63),
    "complex64": (np.int32, 31), "complex128": (np.int64, 63), "float8_e4m3fn": (np.int8, 7),
    "float8_e5m2": (np.int8, 7),
}  # fmt: skip


# bytes of one real element
ELEMENT_SIZES = {name: np.dtype(kind).itemsize for name, (kind, _) in _SIGNED.items()} | {"int16": 2, "int32": 4, "int64": 8}


def ulp_distance(a: bytes | np.ndarray, b: bytes | np.ndarray, dtype: str) -> np.ndarray:
    """Steps between neighbouring representable values from a to b, as float64, per real element.

    -0.0 and 0.0 are one step apart, so that 0 means equal bits. Elements of dtypes without ulps (integers, bool) are
    0 or 1: equal or not. A NaN and a number are infinitely far apart, two NaN 0.
    """
    x, y = np.frombuffer(a, np.uint8), np.frombuffer(b, np.uint8)
    if dtype not in _SIGNED:
        kind = f"u{ELEMENT_SIZES.get(dtype, 1)}"
        return (x.view(kind) != y.view(kind)).astype(np.float64)
    kind, sign = _SIGNED[dtype]
    i, j = _ordered(x.view(kind), sign), _ordered(y.view(kind), sign)
    distance = np.abs(i - j)
    nan_i, nan_j = _is_nan(x.view(kind), dtype), _is_nan(y.view(kind), dtype)
    distance[nan_i != nan_j] = np.inf
    distance[nan_i & nan_j] = 0
    return distance


def _ordered(words: np.ndarray, sign: int) -> np.ndarray:
    """Bits as numbers in the order of the values: negative values count down from -1 (-0.0)."""
    wide = words.astype(np.int64)
    magnitude = wide & ((1 << sign) - 1)
    if sign < 63:
        return np.where(wide < 0, -1 - magnitude, magnitude).astype(np.float64)
    # 64 bits: the difference of two int64 may not fit, so float64 (exact up to 2**53 steps, and an estimate beyond)
    return np.where(wide < 0, -1.0 - magnitude.astype(np.float64), magnitude.astype(np.float64))


def _is_nan(words: np.ndarray, dtype: str) -> np.ndarray:
    exponent, fraction = {
        "float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52), "complex64": (8, 23),
        "complex128": (11, 52), "float8_e4m3fn": (7, 0), "float8_e5m2": (5, 2),
    }[dtype]  # fmt: skip
    magnitude = words.astype(np.int64) & ((1 << (exponent + fraction)) - 1)
    infinity = ((1 << exponent) - 1) << fraction
    return magnitude == infinity if fraction == 0 else magnitude > infinity
