"""Every instruction form of the wheel, on random and special register states, in the emulator and translated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzz import REPORT, Plan, examine, run, version, words_by_row
from harness import BRANCH_ROWS, MEMORY_ROWS, Harness

from torch_densecore.oracle.translate.bits import TABLE

WORDS = words_by_row()


def check(harness: Harness, name: str, words: list[int], seed: int) -> None:
    """Run words of one row: none may differ, and only half-precision arithmetic may be left to the emulator."""
    results = {f"{word:#010x}": examine(harness, name, word, harness.records, seed) for word in words}
    wrong = {word: f"{r.off} of {r.states} states" for word, r in results.items() if r.off}
    left = {word: r.left for word, r in results.items() if r.left and "half-precision" not in r.left}
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
    check(Harness(256, (0,)), name, picked, seed=1)
    check(Harness(256, (2,)), name, picked[:1], seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORDS))
def test_all_forms(name: str) -> None:
    """On fewer states than `python fuzz.py`, whose report is in the tree."""
    check(Harness(2048), name, WORDS[name], seed=2)


@pytest.mark.parametrize("word", [0x4E22F424, 0x4EA2F424, 0x4E62F424, 0x4EE2F424])  # fmax, fmin v4, v1, v2; .4s, .2d
def test_maximum_without_avx512(word: int) -> None:
    check(Harness(8192, features=frozenset()), "three_same", [word], seed=1)


@pytest.mark.parametrize("between", [[], [0x4E22D424], [0x4E218843]])  # nothing; fadd v4, v1, v2; frintn v3, v2
@pytest.mark.parametrize("source", [1, 4])
def test_rounding_then_conversion(between: list[int], source: int) -> None:
    """FRINTN v4, v1; FCVTZS v4, v4 are one instruction of the host, unless something else is converted."""
    before = [0x4E218824, *between]
    check(Harness(8192, before=before), "two_register", [0x4EA1B804 | source << 5], seed=1)


def test_a_wrong_translation_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_densecore.oracle.translate.isa import lanes, vector

    monkeypatch.setitem(vector._INTEGER_SAME, (0, 0x10), lanes.integer("sub"))
    with pytest.raises(AssertionError, match="of 256 states"):
        check(Harness(256, (0,)), "three_same", [0x4EA28424], seed=1)  # add v4.4s, v1.4s, v2.4s


def test_an_interrupted_fuzz_run_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(["across_lanes"], states=64, state=tmp_path / "state.json")
    monkeypatch.setattr("fuzz.words_by_row", lambda: {"across_lanes": WORDS["across_lanes"][:6]})
    first = run(plan, limit=4)
    assert first["words"] == 4 and not first["complete"]
    seen: list[int] = []
    monkeypatch.setattr("fuzz.examine", lambda h, name, word, *a: (seen.append(word), examine(h, name, word, *a))[1])
    second = run(plan)
    assert second["words"] == 6 and second["complete"] and second["off"] == 0
    assert seen == WORDS["across_lanes"][4:6]


def test_the_report_in_the_tree_is_of_these_forms() -> None:
    report = json.loads(REPORT.read_text())
    assert report["off"] == 0 and report["complete"] and report["states"] >= 100_000 * (report["words"] - report["left"])
    assert {name: row["words"] for name, row in report["rows"].items()} == {name: len(words) for name, words in WORDS.items()}


@pytest.mark.slow
def test_the_report_in_the_tree_is_of_these_sources() -> None:
    assert json.loads(REPORT.read_text())["translator"] == version()
