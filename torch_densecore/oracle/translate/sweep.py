"""Exhaustive comparison of a unary float32 function with the reference wheel: every one of the 2**32 inputs.

    report = sweep("aten::exp", candidate, state=Path("exp.json"))

`candidate` maps a float32 array to a float32 array.  Blocks of consecutive bit patterns go through the operator in
the oracle; with `state` an interrupted sweep goes on where it stopped, and shards split it among processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..cache import write_text

if TYPE_CHECKING:
    from ..api import Oracle

WORDS = 1 << 32
BLOCK = 1 << 18  # words; guest tensors up to this size are reused between calls
EXAMPLES = 16
_SAVE_EVERY = 64  # blocks

Candidate = Callable[[np.ndarray], np.ndarray]
Progress = Callable[[int], None]


@dataclass
class SweepReport:
    """Outcome of a sweep, complete or not.

    compared, off: inputs compared and outputs that differ (NaN equals NaN, -0 differs from +0).
    examples: (input word, reference word, candidate word) of the first differences.
    provenance: modelled functions that the operator executed; empty if the wheel's own code did everything.
    """

    op: str
    scalar: bool
    start: int
    stop: int
    next: int
    compared: int = 0
    off: int = 0
    examples: list[tuple[int, int, int]] = field(default_factory=list)
    provenance: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every input of the range was compared."""
        return self.next >= self.stop


def shard_range(index: int, count: int, block: int = BLOCK) -> tuple[int, int]:
    """First and past-the-end word of shard `index` of `count`, on block boundaries."""
    if not 0 <= index < count:
        raise ValueError(f"shard {index} of {count} does not exist; shards count from 0")
    blocks = WORDS // block
    return blocks * index // count * block, blocks * (index + 1) // count * block


def reference(
    oracle: Oracle, op: str, start: int, stop: int, block: int = BLOCK, scalar: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray, frozenset[str]]]:
    """Inputs, the wheel's outputs (both float32) and the provenance, block by block.

    scalar: feed a strided view, for which ATen's loops take their scalar path instead of whole vectors.
    """
    step = 2 if scalar else 1
    room = np.zeros(block * step, np.float32)
    for first in range(start, stop, block):
        words = np.arange(first, min(first + block, stop), dtype=np.uint32)
        inputs = room[: step * len(words) : step]
        inputs[:] = words.view(np.float32)
        result = oracle.run(op, inputs)
        yield words.view(np.float32), result.value, result.provenance


def differing(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Indices where two float32 arrays differ in bits, NaN payloads aside."""
    off = (ours.view(np.uint32) != theirs.view(np.uint32)) & ~(np.isnan(ours) & np.isnan(theirs))
    return np.flatnonzero(off)


def sweep(
    op: str,
    candidate: Candidate,
    *,
    oracle: Oracle | None = None,
    shard: tuple[int, int] = (0, 1),
    words: tuple[int, int] | None = None,
    block: int = BLOCK,
    scalar: bool = False,
    state: Path | None = None,
    progress: Progress | None = None,
) -> SweepReport:
    """Compare `candidate` with the operator on every float32 input.

    oracle: a translated oracle; made if not given.  shard: (index, count), counted from 0.
    words: range of input words instead of the shard's.  state: file that keeps the report; a sweep continues from it.
    progress: called with the number of words done since the last call.
    """
    from ..api import Oracle

    oracle = oracle if oracle is not None else Oracle(translate=True)
    start, stop = words if words is not None else shard_range(*shard, block)
    report = _resume(state, SweepReport(op, scalar, start, stop, start))
    blocks = reference(oracle, op, report.next, report.stop, block, scalar)
    for number, (inputs, expected, provenance) in enumerate(blocks, 1):
        _compare(report, inputs, expected, np.asarray(candidate(inputs), np.float32))
        report.provenance = sorted({*report.provenance, *provenance})
        report.next += len(inputs)
        if state is not None and (number % _SAVE_EVERY == 0 or report.complete):
            write_text(state, json.dumps(asdict(report), indent=1))
        if progress is not None:
            progress(len(inputs))
    return report


def _compare(report: SweepReport, inputs: np.ndarray, expected: np.ndarray, ours: np.ndarray) -> None:
    if ours.shape != expected.shape:
        raise ValueError(f"the candidate returned shape {ours.shape} for {inputs.shape}")
    off = differing(ours, expected)
    report.compared += len(inputs)
    report.off += len(off)
    for index in off[: EXAMPLES - len(report.examples)]:
        report.examples.append(tuple(int(a.view(np.uint32)[index]) for a in (inputs, expected, ours)))


def _resume(state: Path | None, fresh: SweepReport) -> SweepReport:
    if state is None or not state.exists():
        return fresh
    saved = SweepReport(**json.loads(state.read_text()))
    saved.examples = [tuple(example) for example in saved.examples]
    if (saved.op, saved.scalar, saved.start, saved.stop) != (fresh.op, fresh.scalar, fresh.start, fresh.stop):
        raise ValueError(f"{state} belongs to another sweep: {saved.op} from {saved.start:#x} to {saved.stop:#x}")
    return saved
