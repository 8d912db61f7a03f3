"""Differential fuzzing of the translator, instruction by instruction, against the emulator.

    python tests/oracle/translate/fuzz.py                       every form of the wheel, 100,000 states each, both levels
    python tests/oracle/translate/fuzz.py --rows three_same     some rows of the decoding table
    python tests/oracle/translate/fuzz.py --states 1000000

An interrupted run continues: what is done is kept in a state file, for one version of the sources that translate instructions.
The summary is printed, and written to `fuzz_report.json` when every form has been run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness import CHUNK, EXCLUDED, Harness, differences, states
from tqdm import tqdm

from torch_densecore.oracle import cache, translate
from torch_densecore.oracle.translate.bits import TABLE

FORMS, REPORT = Path(__file__).with_name("forms.txt"), Path(__file__).with_name("fuzz_report.json")
SAVE_SECONDS = 20.0
_SOURCES = ("isa/*.py", "bits.py", "emit.py", "link.py", "registers.py", "unit.py")


@dataclass
class Result:
    """One instruction word: how many states ran, how many differ, or why the translator leaves it to the emulator."""

    states: int
    off: int
    left: str = ""


@dataclass
class Plan:
    """Which rows (none: all), on how many states each, and where progress is kept."""

    rows: Sequence[str] = ()
    states: int = 100_000
    state: Path = field(default_factory=lambda: cache.oracle_dir() / "fuzz.json")
    seed: int = 3


def words_by_row() -> dict[str, list[int]]:
    """Instruction words of the wheel's forms, by the row that decodes them."""
    by_row: dict[str, list[int]] = defaultdict(list)
    for line in FORMS.read_text().splitlines():
        word, name = line.split()
        if name not in EXCLUDED:
            by_row[name].append(int(word, 16))
    return dict(by_row)


def examine(harness: Harness, name: str, word: int, count: int, seed: int) -> Result:
    """Run one word on at least `count` states."""
    row = TABLE.find(word)
    assert row is not None and row.name == name, f"{word:#010x} is decoded as {row and row.name}, not {name}"
    result = Result(0, 0)
    while result.states < count:
        part = result.states // harness.records
        outcome = harness.run(word, states(row, word, harness.records, harness.data, seed + part))
        if outcome.left:
            return Result(0, 0, outcome.left)
        result.states += harness.records
        result.off += len(differences(outcome))
    return result


def run(plan: Plan, limit: int | None = None) -> dict[str, Any]:
    """Run what is left of a plan, at most `limit` words; returns the summary."""
    done = _load(plan)
    wanted = [
        (name, word) for name, words in sorted(words_by_row().items()) if not plan.rows or name in plan.rows for word in words
    ]
    left = [(name, word) for name, word in wanted if f"{word:08x}" not in done][:limit]
    harness, saved = Harness(min(CHUNK, plan.states)), time.monotonic()
    try:
        for name, word in tqdm(left, desc="forms", disable=None):
            done[f"{word:08x}"] = asdict(examine(harness, name, word, plan.states, plan.seed))
            if time.monotonic() - saved > SAVE_SECONDS:
                _save(plan, done)
                saved = time.monotonic()
    finally:
        _save(plan, done)
    return summary(plan, wanted, done)


def version() -> str:
    """Digest of the sources that translate instructions."""
    folder, digest = Path(translate.__file__).parent, hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in folder.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _key(plan: Plan) -> dict[str, Any]:
    return {"translator": version(), "states": plan.states, "seed": plan.seed}


def _load(plan: Plan) -> dict[str, dict[str, Any]]:
    try:
        kept = json.loads(plan.state.read_text())
    except (OSError, ValueError):
        return {}
    return kept["words"] if kept.get("key") == _key(plan) else {}


def _save(plan: Plan, done: dict[str, dict[str, Any]]) -> None:
    cache.write_text(plan.state, json.dumps({"key": _key(plan), "words": done}))


def summary(plan: Plan, wanted: list[tuple[str, int]], done: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Counts by row and in all."""
    rows: dict[str, dict[str, Any]] = {}
    for name, word in wanted:
        result = done.get(f"{word:08x}")
        if result is None:
            continue
        row = rows.setdefault(name, {"words": 0, "states": 0, "off": 0, "left": 0})
        row["words"] += 1
        row["states"] += result["states"]
        row["off"] += result["off"]
        row["left"] += bool(result["left"])
    totals = {key: sum(row[key] for row in rows.values()) for key in ("words", "states", "off", "left")}
    return {**_key(plan), **totals, "complete": totals["words"] == len(wanted), "rows": rows}


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", default=(), help="rows of the decoding table; all without it")
    parser.add_argument("--states", type=int, default=100_000)
    options = parser.parse_args()
    report = run(Plan(options.rows, options.states))
    for name, row in report["rows"].items():
        print(
            f"{name:32} {row['words']:5} words {row['states']:12,} states {row['off']:3} off {row['left']:3} left to the emulator"
        )
    print({key: value for key, value in report.items() if key != "rows"})
    if report["complete"] and not options.rows:
        REPORT.write_text(json.dumps(report, indent=1) + "\n")
    return int(report["off"] != 0)


if __name__ == "__main__":
    sys.exit(main())
