"""Bit-for-bit comparison of tensors: signed zeros and infinities count, every NaN equals every other NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def words(tensor: torch.Tensor) -> torch.Tensor:
    """The bits as integers of the same width, in a contiguous tensor; a complex number is two words (real, imaginary)."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg().contiguous().view(_INTEGERS[tensor.element_size()])


def unequal(ours: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Boolean tensor of the elements that differ; shapes and dtypes must agree."""
    different = words(ours) != words(reference)
    if ours.is_complex():
        real, other = (torch.view_as_real(t.resolve_conj()) for t in (ours, reference))
        return (different & ~(real.isnan() & other.isnan())).any(-1)
    if ours.is_floating_point():
        different &= ~(ours.isnan() & reference.isnan())
    return different


def same(ours: torch.Tensor, reference: torch.Tensor) -> bool:
    """Whether shape, dtype and every bit agree."""
    alike = ours.shape == reference.shape and ours.dtype == reference.dtype
    return alike and not bool(unequal(ours, reference).any())


def hexadecimal(element: torch.Tensor) -> str:
    """The bits of a one-element tensor as big-endian hex, one word per real component."""
    width = 2 * words(element).element_size()
    return " ".join(f"{word & ((1 << 4 * width) - 1):0{width}x}" for word in words(element).flatten().tolist())


def distance(ours: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Units in the last place between two floating tensors, as int64; int64's maximum where only one is NaN."""
    if ours.is_complex():
        ours, reference = torch.view_as_real(ours.resolve_conj()), torch.view_as_real(reference.resolve_conj())

    def ordered(tensor: torch.Tensor) -> torch.Tensor:
        bits = tensor.element_size() * 8
        word = words(tensor).to(torch.int64)
        if bits == 8:  # float8: words() is unsigned
            word = torch.where(word >= 128, word - 256, word)
        return torch.where(word < 0, -(word - (-1 << (bits - 1))) if bits < 64 else torch.iinfo(torch.int64).min - word, word)

    a, b = ordered(ours), ordered(reference)
    gap = (a - b).abs()
    worst = torch.iinfo(torch.int64).max
    gap = torch.where(gap < 0, worst, gap)  # the difference of two float64 orders may overflow
    gap = torch.where(ours.isnan() & reference.isnan(), 0, gap)
    return torch.where(ours.isnan() ^ reference.isnan(), worst, gap)


@dataclass(frozen=True)
class Difference:
    """The first element that differs: where, and both values in hex."""

    output: int
    index: tuple[int, ...]
    ours: str
    reference: str
    ours_value: Any
    reference_value: Any
    ulp: int | None

    def __str__(self) -> str:
        gap = "" if self.ulp is None else f", {self.ulp} ulp" if self.ulp < 1 << 62 else ", one is NaN"
        return (
            f"output {self.output} at {self.index}: ours {self.ours} ({self.ours_value!r}),"
            f" reference {self.reference} ({self.reference_value!r}){gap}"
        )


def first_difference(output: int, ours: torch.Tensor, reference: torch.Tensor) -> tuple[int, Difference | None]:
    """Number of differing elements, and the first of them in row-major order."""
    if torch.equal(words(ours), words(reference)):  # nearly always, and cheaper than to look for NaN
        return 0, None
    different = unequal(ours, reference)
    count = int(different.sum())
    if not count:
        return 0, None
    index = tuple(int(i) for i in different.nonzero()[0])
    a, b = ours[index].reshape(1), reference[index].reshape(1)
    floating = a.is_floating_point() or a.is_complex()
    ulp = int(distance(a, b).max()) if floating else None
    return count, Difference(output, index, hexadecimal(a), hexadecimal(b), a.item(), b.item(), ulp)
