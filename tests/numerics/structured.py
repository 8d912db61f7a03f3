"""The digest program's inputs and hashes in Python (digest/inputs.h, report.h, loops.h): the same bits, made independently."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import xxhash

SOURCES = Path(__file__).resolve().parent / "digest"
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def words(seed: int, count: int) -> np.ndarray:
    """Elements 0 ... count - 1 of splitmix64's stream `seed`."""
    with np.errstate(over="ignore"):
        z = np.uint64((seed << 32) & (2**64 - 1)) + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _specials(word_type: type, marker: str) -> np.ndarray:
    """The table that inputs.h holds for one type."""
    text = (SOURCES / "inputs.h").read_text()
    table = re.search(rf"const {marker} words\[\] = \{{(.*?)\}};", text, re.S)
    assert table is not None
    positive = np.array([int(word, 16) for word in table.group(1).split(",")], dtype=word_type)
    return np.concatenate([positive, positive | word_type(1 << (8 * positive.itemsize - 1))])


_WORD = {torch.float32: (np.uint32, "uint32_t", np.float32), torch.float64: (np.uint64, "uint64_t", np.float64)}


def _moderate(w: np.ndarray, real: type) -> np.ndarray:
    digits = 24 if real is np.float32 else 53
    unit = (w >> np.uint64(64 - digits)).astype(real) * real(2.0**-digits)
    return (unit - real(0.5)) * real(8)


def moderate(seed: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`count` values of Kind::kModerate."""
    return torch.from_numpy(_moderate(words(seed, count), _WORD[dtype][2]))


def mixed(seed: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """`count` values of Kind::kMixed."""
    word_type, marker, real = _WORD[dtype]
    w = words(seed, count)
    value = _moderate(w, real)
    choice, detail = (w & np.uint64(15)).astype(int), ((w >> np.uint64(4)) & np.uint64(63)).astype(int)
    special = _specials(word_type, marker).view(real)
    with np.errstate(over="ignore", under="ignore"):
        any_bits = (w * GOLDEN) >> np.uint64(64 - 8 * np.dtype(real).itemsize)
        scaled = np.ldexp(value, detail - 32)
    out = np.where(choice == 0, special[detail % len(special)], value)
    out = np.where((choice == 2) | (choice == 3), scaled, out)
    out = np.where((choice >= 4) & (choice <= 6), value / real(4), out)
    bits = out.astype(real).view(word_type)
    bits[choice == 1] = any_bits.astype(word_type)[choice == 1]
    return torch.from_numpy(bits.view(real))


@dataclass(frozen=True)
class LoopCase:
    """One case of digest::loop_cases."""

    n: int
    layout: str
    threads: int = 4


SMALL = (0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 129, 257, 1031)


def loop_cases(inputs: int) -> Iterator[LoopCase]:
    """The cases of an elementwise kernel of `inputs` inputs, in the program's order."""
    yield from (LoopCase(n, "contiguous") for n in SMALL)
    yield from (LoopCase(n, "strided") for n in (1, 3, 8, 17, 263))
    yield from (LoopCase(n, "rows") for n in (1, 6, 21, 70))
    if inputs > 1:
        yield from (LoopCase(n, "one value") for n in (1, 5, 21, 70))
    yield from (LoopCase(65541, "contiguous", threads) for threads in (1, 2, 3))


def operands(case: LoopCase, first_seed: int, inputs: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """The inputs of a case as tensors with the layout that the program gives its loops."""
    rows = 3 if case.layout == "rows" else 1
    tensors = []
    for k in range(inputs):
        data = mixed(first_seed + k, rows * (case.n + 5) + case.n, dtype)
        if case.layout == "rows":
            tensors.append(data[: 3 * (case.n + 5)].view(3, case.n + 5)[:, : case.n])
        elif case.layout == "strided":
            tensors.append(data[: 2 * case.n : 2])
        elif case.layout == "one value" and k == inputs - 1:
            tensors.append(data[:1].expand(case.n))
        else:
            tensors.append(data[: case.n])
    return tensors


LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 257, 1031)


def softmax_rows() -> Iterator[torch.Tensor]:
    """The inputs of the softmax of rows (digest/rows.cpp)."""
    for n in LENGTHS:
        for rows in (1, 3, 50):
            masked = moderate(n, rows * n)
            position = torch.arange(rows * n)
            masked[(position < n) | (position % 3 == 0)] = float("-inf")
            for x in (moderate(n, rows * n), mixed(n, rows * n), masked):
                yield x.view(rows, n)


def layer_norm_rows() -> Iterator[tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]]:
    """Input, weight and bias of layer norm (digest/rows.cpp)."""
    for n in LENGTHS:
        for m in (1, 5, 33):
            x = moderate(n, m * n).view(m, n)
            weight, bias = moderate(n + 1, n), moderate(n + 2, n)
            yield from ((x, weight, bias), (x, None, None), (x, weight, None), (x, None, bias))


class Line:
    """XXH64 of tensors in order, every NaN as the same one: a line of the hash file."""

    def __init__(self) -> None:
        self._state = xxhash.xxh64(seed=0)
        self._elements = 0

    def add(self, results: torch.Tensor) -> None:
        """Appends a tensor's elements in row-major order."""
        array = results.contiguous().numpy().copy()
        if array.dtype.kind == "f":
            word_type = {4: np.uint32, 8: np.uint64}[array.itemsize]
            nan = {4: 0x7FC00000, 8: 0x7FF8000000000000}[array.itemsize]
            canonical = array.reshape(-1).view(word_type)
            canonical[np.isnan(array.reshape(-1))] = nan
            array = canonical
        self._state.update(array.tobytes())
        self._elements += results.numel()

    def row(self) -> tuple[str, str]:
        """Elements and hash, as the hash file spells them."""
        return str(self._elements), f"{self._state.intdigest():016x}"
