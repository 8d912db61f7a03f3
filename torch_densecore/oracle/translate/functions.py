"""Where functions start, from a dylib's LC_FUNCTION_STARTS: a list of differences that takes milliseconds to read."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..macho import Image

_FUNCTION_STARTS = 0x26


def decode_uleb(data: bytes) -> np.ndarray:
    """All ULEB128 numbers of a buffer."""
    raw = np.frombuffer(data, np.uint8)
    last = np.flatnonzero(raw < 0x80)
    raw = raw[: last[-1] + 1] if len(last) else raw[:0]
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    place = np.arange(len(raw)) - np.repeat(first, last - first + 1)
    parts = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, first) if len(first) else parts


def function_starts(image: Image) -> list[int]:
    """Guest addresses of the functions of an image, and the bounds of its sections, sorted."""
    data, offset = image.data, 32
    starts: set[int] = set()
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<2I", data, offset)
        if command == _FUNCTION_STARTS:
            begin, length = struct.unpack_from("<2I", data, offset + 8)
            deltas = decode_uleb(data[begin : begin + length])
            deltas = deltas[: np.flatnonzero(deltas)[-1] + 1]  # zeros pad the list
            base = image.base + image.segment("__TEXT").vmaddr
            starts.update((np.cumsum(deltas) + np.uint64(base)).tolist())
        offset += size
    for section in image.sections:
        starts.update((image.base + section.addr, image.base + section.addr + section.size))
    return sorted(starts)
