"""Deterministic inputs: values, memory layouts and sizes at which kernels change their path.

Everything derives from integers by exact arithmetic, so a seed gives the same bits on every host.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import torch

# around a 4-lane vector, its 2x and 4x unrolls, the 8-lane vectors of older releases, and cascade-sum blocks
LANE_EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257)
GRAIN = 32768  # at::internal::GRAIN_SIZE: the smallest parallel chunk
CHUNK_EDGES = (GRAIN - 1, GRAIN, GRAIN + 1, 2 * GRAIN + 1, 3 * GRAIN + 5, 4 * GRAIN + 3)
THREADS = (1, 2, 3, 4, 6, 8, 10, 12)

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
NUMBERS = (*FLOATS, *INTEGERS)
EVERY = (*NUMBERS, torch.bool)
COMPLEX = (torch.complex64, torch.complex128)

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_INTEGER_VIEW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def seed_of(*parts: object) -> int:
    """A 32-bit seed from names and numbers, the same in every process."""
    return zlib.crc32("/".join(map(str, parts)).encode())


def _bits(words: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    size = dtype.itemsize
    signed = words.astype(_WORDS[size]).view(np.uint8 if size == 1 else f"i{size}")
    return torch.from_numpy(np.ascontiguousarray(signed)).view(dtype)


def specials(dtype: torch.dtype) -> torch.Tensor:
    """Signed zeros, infinities, NaN, subnormals, the ends of the range, powers of two and their neighbours."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([v for v in (0, 1, 2, 3, 7, -1, -2, info.min, info.min + 1, info.max) if v >= info.min], dtype=dtype)
    info = torch.finfo(dtype)
    exact = [0.0, 1.0, 2.0, 0.5, 1.5, 3.0, 10.0, 100.0, info.max, info.tiny, info.eps, float("inf"), float("nan")]
    values = torch.tensor(exact, dtype=torch.float64).to(dtype)
    words = values.view(_INTEGER_VIEW[dtype.itemsize])
    neighbours = torch.cat([words[1:11] + 1, words[1:11] - 1, torch.tensor([1, 2], dtype=words.dtype)]).view(dtype)
    positive = torch.cat([values, neighbours])
    return torch.cat([positive, -positive])


def values(dtype: torch.dtype, count: int, seed: int, kind: str = "mixed") -> torch.Tensor:
    """`count` values in one dimension.

    kind: "normal" (bell-shaped, about -4..4), "wide" (every binary exponent from -24 to 24), "bits" (random bit
    patterns), "unit" (0 to 1), "positive" (normal without sign), "special" (all special values, repeated), "mixed"
    (normal with one special value in eleven), "zeros" (both zeros), "few" (-1, both zeros and 1, so that many are alike).
    Integer dtypes take small values for all but "bits" and "special"; complex numbers are pairs.
    """
    if dtype.is_complex:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.complex(values(part, count, seed, kind), values(part, count, seed + 1, kind))
    random = np.random.default_rng([seed & 0xFFFFFFFF, count])
    if kind in ("zeros", "few"):
        choices = torch.tensor([0.0, -0.0, 1.0, -1.0][: 2 if kind == "zeros" else 4]).to(dtype)
        return choices[torch.from_numpy(random.integers(0, len(choices), count))]
    if kind == "special":
        every = specials(dtype)
        return every.repeat(count // len(every) + 1)[:count].clone()
    if dtype == torch.bool:
        return torch.from_numpy(random.integers(0, 2, count).astype(bool))
    if kind == "bits":
        return _bits(random.integers(0, 1 << 8 * dtype.itemsize, count, np.uint64, endpoint=False), dtype)
    if not dtype.is_floating_point:
        low = 0 if not dtype.is_signed or kind in ("positive", "unit") else -20
        return torch.from_numpy(random.integers(low, 21, count)).to(dtype)
    if kind == "unit":
        return torch.from_numpy(random.integers(0, 1 << 24, count) / (1 << 24)).to(dtype)
    bell = (random.integers(0, 1 << 20, (4, count)).sum(0) - (1 << 21) + 0.5) / (1 << 19)
    if kind == "wide":
        bell = bell * np.ldexp(1.0, random.integers(-24, 25, count))
    elif kind == "positive":
        bell = np.abs(bell)
    out = torch.from_numpy(bell).to(dtype)
    if kind == "mixed" and count:
        every = specials(dtype)
        where = torch.from_numpy(random.integers(0, 11, count) == 0)
        out[where] = every[torch.from_numpy(random.integers(0, len(every), count))][where]
    return out


def tensor(shape: Sequence[int], dtype: torch.dtype, seed: int, kind: str = "mixed", layout: str = "contiguous") -> torch.Tensor:
    """A tensor of these values in a memory layout.

    layout: "contiguous"; "strided" (every second element of the last dimension); "transposed" (last two dimensions
    swapped in memory); "offset" (starts 3 elements into its storage); "expanded" (first dimension has stride 0).
    """
    shape = tuple(shape)
    if layout == "strided" and shape:
        return tensor((*shape[:-1], 2 * shape[-1]), dtype, seed, kind)[..., ::2]
    if layout == "transposed" and len(shape) > 1:
        return tensor((*shape[:-2], shape[-1], shape[-2]), dtype, seed, kind).transpose(-1, -2)
    if layout == "expanded" and shape:
        return tensor((1, *shape[1:]), dtype, seed, kind).expand(shape)
    count = int(np.prod(shape, dtype=np.int64))
    if layout == "offset":
        return values(dtype, count + 3, seed, kind)[3:].view(shape)
    return values(dtype, count, seed, kind).view(shape)


LAYOUTS = ("strided", "transposed", "offset", "expanded")


def every_pattern(dtype: torch.dtype, start: int, count: int) -> torch.Tensor:
    """The `count` bit patterns from `start` on, for exhaustive sweeps of dtypes of at most 32 bits."""
    return _bits(np.arange(start, start + count, dtype=np.uint64), dtype)


def with_neighbour(x: torch.Tensor, neighbour: float, place: int) -> torch.Tensor:
    """The values of `x` (one dimension) three by three, with `neighbour` as a fourth at `place` of each group of 4 lanes."""
    padding = torch.full((-len(x) % 3,), neighbour, dtype=x.dtype)
    threes = torch.cat((x, padding)).view(-1, 3)
    fourth = torch.full((len(threes), 1), neighbour, dtype=x.dtype)
    return torch.cat((threes[:, :place], fourth, threes[:, place:]), 1).flatten()
