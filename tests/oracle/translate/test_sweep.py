"""The sweep: blocks, shards, resumption, reports. The operator is the host's here; one test asks the wheel."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from torch_densecore.oracle.translate.sweep import WORDS, reference, shard_range, sweep


class _Host:
    """Stands in for the oracle: runs a NumPy function."""

    def __init__(self, function) -> None:  # type: ignore[no-untyped-def]
        self.function, self.calls = function, 0

    def run(self, op: str, x: np.ndarray) -> SimpleNamespace:
        self.calls += 1
        return SimpleNamespace(value=self.function(x.copy()), provenance=frozenset({"made_up"}))


def _negate(x: np.ndarray) -> np.ndarray:
    return -x


@pytest.mark.parametrize("count", [1, 3, 16])
def test_shards_cover_everything(count: int) -> None:
    ranges = [shard_range(index, count) for index in range(count)]
    assert ranges[0][0] == 0 and ranges[-1][1] == WORDS
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))


def test_shard_out_of_range() -> None:
    with pytest.raises(ValueError, match="shard 3 of 3"):
        shard_range(3, 3)


def test_equal_functions() -> None:
    done: list[int] = []
    report = sweep("x", _negate, oracle=_Host(_negate), words=(0, 1000), block=256, progress=done.append)
    assert (report.compared, report.off, report.complete) == (1000, 0, True)
    assert done == [256, 256, 256, 232]
    assert report.provenance == ["made_up"]


def test_differences_are_counted_and_shown() -> None:
    def wrong(x: np.ndarray) -> np.ndarray:
        return np.where(x.view(np.uint32) % 100 == 7, x, -x)

    report = sweep("x", wrong, oracle=_Host(_negate), words=(0, 5000), block=512)
    assert report.off == 50 and len(report.examples) == 16
    assert report.examples[0] == (7, 0x80000007, 7)


def test_nan_payloads_compare_equal_and_zeros_do_not() -> None:
    words = (0x7FC00000, 0x7FC00100)
    assert sweep("x", _negate, oracle=_Host(lambda x: x), words=words).off == 0
    assert sweep("x", _negate, oracle=_Host(lambda x: x), words=(0, 1)).off == 1


def test_interrupted_sweep_continues(tmp_path: Path) -> None:
    state, calls = tmp_path / "state.json", 0

    def stop(words: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 70:
            raise KeyboardInterrupt

    arguments = dict(words=(0, 1000), block=10, state=state)
    with pytest.raises(KeyboardInterrupt):
        sweep("x", _negate, oracle=_Host(_negate), progress=stop, **arguments)
    rest = _Host(_negate)
    report = sweep("x", _negate, oracle=rest, **arguments)
    assert report.complete and report.compared == 1000
    assert rest.calls == 36  # the state was saved after 64 blocks
    with pytest.raises(ValueError, match="another sweep"):
        sweep("y", _negate, oracle=rest, **arguments)


def test_scalar_inputs_are_strided() -> None:
    seen = []
    host = SimpleNamespace(run=lambda op, x: seen.append(x.strides) or SimpleNamespace(value=x, provenance=frozenset()))
    next(reference(host, "x", 0, 8, scalar=True))
    assert seen == [(8,)]


@pytest.mark.oracle
def test_the_wheel_s_square_root_is_ieee(translated) -> None:  # type: ignore[no-untyped-def]
    with np.errstate(invalid="ignore"):
        report = sweep("aten::sqrt", np.sqrt, oracle=translated, words=(0x3F000000, 0x3F100000))
    assert (report.compared, report.off, report.provenance) == (1 << 20, 0, [])
