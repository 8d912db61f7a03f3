"""Table-driven A64 decoding: one bit pattern per instruction class, as in the encoding tables of the Arm manual.

A pattern lists the 32 bits from the highest to the lowest: groups of 0 and 1 are fixed, `name:width` is a field
(`name` alone is one bit).  `@insn(pattern)` enters the function below it as the translation of that class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

Translate = Callable[[Any, SimpleNamespace], None]
Flow = Callable[[SimpleNamespace, int], "Branch"]

_INDEX_SHIFT = 21  # the table is indexed by the top 11 bits


@dataclass(frozen=True)
class Branch:
    """Where control goes after an instruction: static targets, and whether the next instruction is one of them."""

    targets: tuple[int, ...] = ()
    falls_through: bool = False


@dataclass(frozen=True)
class Pattern:
    """One row of the decoding table."""

    name: str
    mask: int
    value: int
    fields: tuple[tuple[str, int, int], ...]
    translate: Translate
    flow: Flow | None

    def extract(self, word: int) -> SimpleNamespace:
        """Field values of an instruction word."""
        return SimpleNamespace(**{name: word >> low & mask for name, low, mask in self.fields})


def parse(text: str) -> tuple[int, int, tuple[tuple[str, int, int], ...]]:
    """Mask, value and fields (name, lowest bit, mask) of a pattern string."""
    position, mask, value, fields = 32, 0, 0, []
    for token in text.split():
        if set(token) <= {"0", "1"}:
            position -= len(token)
            mask |= ((1 << len(token)) - 1) << position
            value |= int(token, 2) << position
        else:
            name, _, width = token.partition(":")
            position -= int(width or 1)
            fields.append((name, position, (1 << int(width or 1)) - 1))
    if position:
        raise ValueError(f"pattern {text!r} has {32 - position} bits")
    return mask, value, tuple(fields)


class Table:
    """The decoding table; rows are tried in the order of their registration."""

    def __init__(self) -> None:
        self.rows: list[Pattern] = []
        self._buckets: list[list[Pattern]] | None = None

    def insn(self, text: str, flow: Flow | None = None) -> Callable[[Translate], Translate]:
        """Decorator that registers the translation of the instructions which match a pattern."""
        mask, value, fields = parse(text)

        def register(function: Translate) -> Translate:
            self.rows.append(Pattern(function.__name__, mask, value, fields, function, flow))
            self._buckets = None
            return function

        return register

    def find(self, word: int) -> Pattern | None:
        """The row that matches an instruction word."""
        if self._buckets is None:
            self._buckets = self._index()
        for row in self._buckets[word >> _INDEX_SHIFT]:
            if word & row.mask == row.value:
                return row
        return None

    def _index(self) -> list[list[Pattern]]:
        buckets: list[list[Pattern]] = []
        for top in range(1 << (32 - _INDEX_SHIFT)):
            word = top << _INDEX_SHIFT
            high = ~((1 << _INDEX_SHIFT) - 1)
            buckets.append([row for row in self.rows if (word ^ row.value) & row.mask & high == 0])
        return buckets


TABLE = Table()
insn = TABLE.insn


def sign_extend(value: int, width: int) -> int:
    """Two's complement value of the low `width` bits."""
    return (value & ((1 << width) - 1)) - ((value >> (width - 1) & 1) << width)


def ones(count: int) -> int:
    """A word with `count` low bits set."""
    return (1 << count) - 1


def logical_immediate(n: int, imms: int, immr: int, size: int) -> int | None:
    """The bitmask immediate of logical instructions; None if the encoding is reserved."""
    length = (n << 6 | (~imms & 0x3F)).bit_length() - 1
    if length < 1 or (size == 32 and n):
        return None
    element = 1 << length
    run, rotate = imms & (element - 1), immr & (element - 1)
    if run == element - 1:
        return None
    pattern = ones(run + 1)
    pattern = (pattern >> rotate | pattern << (element - rotate)) & ones(element)
    return sum(pattern << at for at in range(0, size, element))


def float_immediate(imm8: int, size: int) -> int:
    """The bits of an 8-bit floating-point immediate in half, single or double precision."""
    exponent, fraction = {16: (5, 10), 32: (8, 23), 64: (11, 52)}[size]
    sign, middle, low = imm8 >> 7, imm8 >> 6 & 1, imm8 & 0x3F
    biased = (middle ^ 1) << (exponent - 1) | (ones(exponent - 3) * middle) << 2 | low >> 4
    return sign << (size - 1) | biased << fraction | (low & 0xF) << (fraction - 4)
