"""Every instruction form of the wheel, on random and special register states, in the emulator and translated."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from harness import BRANCH_ROWS, EXCLUDED, MEMORY_ROWS, Harness, differences, states

from torch_densecore.oracle.translate.bits import TABLE

FORMS = [line.split() for line in (Path(__file__).parent / "forms.txt").read_text().splitlines()]


def _words() -> dict[str, list[int]]:
    by_row: dict[str, list[int]] = defaultdict(list)
    for word, name in FORMS:
        if name not in EXCLUDED:
            by_row[name].append(int(word, 16))
    return by_row


WORDS = _words()


def check(harness: Harness, name: str, words: list[int], seed: int) -> None:
    """Run words of one row: none may differ, and only half-precision arithmetic may be left to the emulator."""
    wrong, left = [], {}
    for word in words:
        row = TABLE.find(word)
        assert row is not None and row.name == name, f"{word:#010x} is decoded as {row and row.name}, not {name}"
        outcome = harness.run(word, states(row, word, harness.records, harness.data, seed))
        if outcome.left and "half-precision" not in outcome.left:
            left[f"{word:#010x}"] = outcome.left
        elif outcome.left:
            continue
        elif len(off := differences(outcome)):
            wrong.append(f"{word:#010x}: {len(off)} of {harness.records} states")
    assert not wrong, f"{name}: {wrong}"
    assert not left, f"{name}: left to the emulator: {left}"


def test_every_row_is_covered() -> None:
    rows = {row.name for row in TABLE.rows}
    assert MEMORY_ROWS | BRANCH_ROWS <= rows
    assert not set(WORDS) - rows


@pytest.mark.parametrize("name", sorted(WORDS))
def test_sample(name: str) -> None:
    words = WORDS[name]
    picked = words[:: max(1, len(words) // 2)]
    check(Harness(256, level=0), name, picked, seed=1)
    check(Harness(256, level=2), name, picked[:1], seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", sorted(WORDS))
def test_all_forms_on_100000_states(name: str, level: int) -> None:
    check(Harness(100_000, level), name, WORDS[name], seed=2)


def test_a_wrong_translation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_densecore.oracle.translate.isa import lanes, vector

    monkeypatch.setitem(vector._INTEGER_SAME, (0, 0x10), lanes.integer("sub"))
    with pytest.raises(AssertionError, match="of 256 states"):
        check(Harness(256, level=0), "three_same", [0x4EA28424], seed=1)  # add v4.4s, v1.4s, v2.4s
