"""Collect the instruction forms of the reference wheel: `python collect_forms.py > forms.txt`.

A form is a row of the decoding table with the values of all fields but registers and immediates.  For each form a few
of the words that occur are kept, with the registers renamed to the ones that the fuzzer sets.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np

from torch_densecore.oracle import Oracle
from torch_densecore.oracle.translate.bits import TABLE, Pattern
from torch_densecore.oracle.translate.unit import isa  # noqa: F401

REGISTERS = {"rn": 1, "rm": 2, "ra": 3, "rd": 4, "rt": 4, "rt2": 5, "rs": 2}
IMMEDIATES = {
    "imm12", "imm9", "imm7", "imm16", "imm19", "imm26", "imm14", "immhi", "immlo", "immr", "imms", "imm6", "imm8", "imm3",
    "abc", "defgh", "immb", "b40", "b5", "imm5", "imm4", "scale", "nzcv", "crm", "op2", "l", "m", "h", "hw", "sh",
}  # fmt: skip
PER_FORM = 6


def rename(row: Pattern, word: int) -> int:
    """The same instruction on the fuzzer's registers; number 31 stays."""
    for name, low, mask in row.fields:
        if name in REGISTERS and word >> low & mask != 31:
            word = word & ~(mask << low) | REGISTERS[name] << low
        if name in ("imm19", "imm14") and row.flow is not None:
            word = word & ~(mask << low) | 2 << low  # over the next instruction
    return word


def form(row: Pattern, fields: SimpleNamespace) -> tuple:
    """Key of the form an instruction belongs to."""
    values = tuple(
        (name, value == 31 if name in REGISTERS else value)
        for name, value in vars(fields).items()
        if name not in IMMEDIATES
    )
    return row.name, row.value, values


def main() -> None:
    """Scan both dylibs."""
    kept: dict[tuple, list[int]] = {}
    unknown: Counter[int] = Counter()
    for image in Oracle().machine.images:
        (section,) = image.find_sections("__text")
        data = np.frombuffer(image.data, np.uint32, section.size // 4, section.offset)
        words, counts = np.unique(data, return_counts=True)
        for word, count in zip(words.tolist(), counts.tolist(), strict=True):
            row = TABLE.find(word)
            if row is None:
                unknown[word] += count
                continue
            if row.name == "two_register" and word >> 12 & 0x1F == 0x16 and word >> 23 & 1:
                continue  # BFCVTN, which neither the reference machine nor the emulator has
            words_of_form = kept.setdefault(form(row, row.extract(word)), [])
            renamed = rename(row, word)
            if len(words_of_form) < PER_FORM and renamed not in words_of_form:
                words_of_form.append(renamed)
    print(f"{len(kept)} forms; {sum(unknown.values())} words not in the table", file=sys.stderr)
    for word, count in unknown.most_common(40):
        print(f"  {word:#010x} {count}", file=sys.stderr)
    for key in sorted(kept, key=str):
        for word in kept[key]:
            print(f"{word:08x} {key[0]}")


if __name__ == "__main__":
    main()
