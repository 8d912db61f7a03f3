"""Writes the tables of this folder: `python generate_tables.py` (needs mpmath and numpy)."""

from __future__ import annotations

from pathlib import Path

import mpmath
import numpy as np

mpmath.mp.prec = 600
HERE = Path(__file__).parent
HEADER = """// Written by generate_tables.py. {about}
#pragma once

#include <cstdint>

namespace densecore {{

inline constexpr {type} {name}[{size}] = {{
{rows}
}};

}}  // namespace densecore
"""


def write(file: str, about: str, ctype: str, name: str, values: list[str], per_row: int) -> None:
    lines = ["    " + ", ".join(values[i : i + per_row]) + "," for i in range(0, len(values), per_row)]
    text = HEADER.format(about=about, type=ctype, name=name, size=len(values), rows="\n".join(lines))
    (HERE / file).write_text(text, encoding="utf-8")


def exp2_table() -> None:
    powers = [float(mpmath.mpf(2) ** (mpmath.mpf(i) / 128)) for i in range(128)]
    words = [f"0x{np.float64(p).view(np.uint64):016x}" for p in powers]
    about = "2^(i/128), correctly rounded to binary64: the table of Apple's expf (libm.h)."
    write("exp2_table.h", about, "uint64_t", "kExp2Table128", words, 4)


def clear_low_bits(value: np.float32, bits: int) -> np.float32:
    word = np.uint32(value.view(np.uint32)) & np.uint32(0xFFFFFFFF << bits & 0xFFFFFFFF)
    return word.view(np.float32)


def turn_table() -> None:
    """Row e: 1/(2 pi) without the bits that give whole turns of a float >= 2^(e + 25), as four floats.

    The first three have their last two bits cleared, so that products with them lose less. From row 66 on the row is scaled by
    2^64, since the argument is scaled by 2^-64 there.
    """
    values = []
    for row in range(103):
        rest = mpmath.mpf(1) / (2 * mpmath.pi) * mpmath.mpf(2) ** (row + 2)
        rest = (rest - mpmath.floor(rest)) / mpmath.mpf(2) ** (row + 2 - (64 if row > 65 else 0))
        for cleared in (2, 2, 2, 0):
            part = clear_low_bits(np.float32(float(rest)), cleared)
            rest -= mpmath.mpf(float(part))
            values.append(f"0x{part.view(np.uint32):08x}")
    about = "1/(2 pi) by exponent of the argument, four float words a row: SLEEF's argument reduction (trigonometric.h)."
    write("turn_table.h", about, "uint32_t", "kTurnTable", values, 4)


if __name__ == "__main__":
    exp2_table()
    turn_table()
