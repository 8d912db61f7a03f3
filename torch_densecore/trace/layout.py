"""How a strided tensor lies in memory, and which of its elements are sampled: needed without torch, too."""

from __future__ import annotations

import binascii
from functools import lru_cache

import numpy as np


def layout_code(shape: tuple[int, ...], stride: tuple[int, ...]) -> str:
    """How a strided tensor lies in memory: "" when in logical order; equal codes make digests comparable."""
    return memory_layout(tuple(shape), tuple(stride))[1]


@lru_cache(maxsize=1 << 16)
def memory_layout(shape: tuple[int, ...], stride: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """(dimensions by falling stride, code). Dimensions of size 1 have no place in memory and none in the code."""
    order = tuple(sorted(range(len(shape)), key=lambda dim: (-stride[dim], dim)))
    real = [dim for dim in order if shape[dim] > 1]
    broadcast = [dim for dim in real if stride[dim] == 0]
    if not broadcast and real == sorted(real):
        return order, ""
    return order, " ".join(f"{dim}:{shape[dim]}{'*' if dim in broadcast else ''}" for dim in real)


@lru_cache(maxsize=4096)
def sample_positions(numel: int, samples: int) -> np.ndarray:
    """Logical positions of the sampled elements of a tensor of `numel`: the first, the last, evenly between."""
    count = min(numel, samples)
    if count <= 1:
        return np.zeros(count, dtype=np.int64)
    return np.arange(count, dtype=np.int64) * (numel - 1) // (count - 1)


def sample_bytes(sample: str) -> bytes:
    """The sampled elements, little endian; nothing where the text is no base64."""
    try:
        return binascii.a2b_base64(sample)
    except (binascii.Error, ValueError):
        return b""
