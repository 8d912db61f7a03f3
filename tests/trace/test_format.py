"""Damaged, foreign and newer files: a clear message, nothing executed, nothing lost that can be read."""

import contextlib
import json
import pickle
import re
from random import Random

import pytest
import torch
from traced_programs import densecore, rewrite, run_traced

from torch_densecore.trace import TraceError, TraceReader, compare, validate
from torch_densecore.trace.explain.explanation import explain
from torch_densecore.trace.html import render
from torch_densecore.trace.keep import unpack
from torch_densecore.trace.results import as_json


@pytest.fixture
def trace(tmp_path):
    def body():
        for _ in range(20):
            torch.ones(4) * 2

    return run_traced(tmp_path / "run.dct", body, keep="events=3")


def test_a_sound_file(trace):
    summary = validate(trace)
    assert (summary.events, summary.status, summary.problem, summary.tensors) == (40, "complete", None, 1)


def test_every_cut_leaves_the_calls_before_it(trace, tmp_path):
    data = trace.read_bytes()
    cut = tmp_path / "cut.dct"
    seen = set()
    for size in range(len(data) // 3, len(data), 97):
        cut.write_bytes(data[:size])
        summary = validate(cut)
        assert summary.status == "killed" or summary.problem is None
        seen.add(summary.events)
    assert len(seen) > 10 and max(seen) <= 40


@pytest.mark.parametrize("change", [
    lambda lines: [*lines[:9], lines[9].replace(b'["', b'["0', 1), *lines[10:]],  # edited
    lambda lines: [*lines[:9], *lines[10:]],  # a line removed
    lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],  # two exchanged
    lambda lines: [*lines[:9], lines[9], *lines[9:]],  # one doubled
])  # fmt: skip
def test_hand_edits_are_found(trace, tmp_path, change):
    lines = trace.read_bytes().splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith(b"[12,")) - 9
    other = tmp_path / "edited.dct"
    other.write_bytes(b"".join(lines[:start] + change(lines[start:])))
    summary = validate(other)
    assert "edited or damaged" in summary.problem
    assert 8 <= summary.events <= 13
    with pytest.raises(TraceError, match="edited or damaged"):
        list(TraceReader(other, strict=True).events())


def test_changed_tensors_are_found(trace, tmp_path):
    data = trace.read_bytes()
    place = data.index(b'"in.0"') + 300
    other = tmp_path / "tensors.dct"
    other.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert "does not match its checksum" in validate(other).problem


def test_newer_foreign_and_empty_files(trace, tmp_path):
    text = trace.read_bytes()
    cases = {
        "newer.dct": (text.replace(b'{"densecore_trace":1', b'{"densecore_trace":2', 1), "format version 2.*Update"),
        "foreign.dct": (b"\x00\x01\x02" * 1000, "not a densecore trace"),
        "json.dct": (b'{"a": 1}\n', "not a densecore trace"),
        "empty.dct": (b"", "is empty"),
    }
    for name, (data, message) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(TraceError, match=message):
            TraceReader(tmp_path / name)
        done = densecore("diff", str(trace), name, cwd=tmp_path)
        assert done.returncode == 2 and re.search(message, done.stderr) and "Traceback" not in done.stderr
    with pytest.raises(TraceError, match="cannot read"):
        TraceReader(tmp_path / "missing.dct")


JUNK = (None, -1, 7, "x", [], {}, [1, 2], {"a": 1}, True, 1e99, "float32", [[]])


def places(value, path=()):
    """The paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def spoilt(value, random):
    """The value with something inside replaced or removed."""
    *path, last = random.choice(list(places(value)))
    inside = value
    for key in path:
        inside = inside[key]
    if random.random() < 0.2:
        del inside[last]
    else:
        inside[last] = random.choice(JUNK)
    return value


@pytest.mark.parametrize("seed", range(40))
def test_hand_edits_with_right_checksums_give_no_traceback(trace, tmp_path, seed):
    """Every line has the form that the reader relies on, or is called damaged."""
    random, other = Random(seed), tmp_path / "spoilt.dct"
    lines = []
    rewrite(trace, other, lambda value: lines.append(value) or value)
    chosen = random.randrange(1, len(lines))
    rewrite(trace, other, lambda value: spoilt(value, random) if value == lines[chosen] else value)
    for pair in ((trace, other), (other, trace)):
        with contextlib.suppress(TraceError):
            validate(other)
            result = compare(*pair)
            json.dumps(as_json(result))
            render(result)
            explain(result, replays=False)


@pytest.mark.parametrize("change, message", [
    (lambda v: [*v[:2], [], *v[3:]], "another number of tensors"),
    (lambda v: [v[0] - 5, *v[1:]], "does not follow event"),
    (lambda v: [v[0], 999, *v[2:]], "site 999 is not defined"),
])  # fmt: skip
def test_an_event_that_contradicts_its_site_is_damage(trace, tmp_path, change, message):
    rewrite(trace, tmp_path / "b.dct", lambda v: change(v) if isinstance(v, list) and v[0] == 9 else v)
    summary = validate(tmp_path / "b.dct")
    assert message in summary.problem and summary.events == 9


class Bomb:
    """Fails the test if it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def test_a_pickle_is_not_executed(trace, tmp_path):
    (tmp_path / "bomb.dct").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(TraceError, match="not a densecore trace"):
        TraceReader(tmp_path / "bomb.dct")
    with pytest.raises(TraceError, match="damaged"):
        unpack(pickle.dumps(Bomb()))


def test_a_damaged_file_is_compared_up_to_the_damage_and_called_unusable(trace, tmp_path):
    lines = trace.read_bytes().splitlines(keepends=True)
    (tmp_path / "bad.dct").write_bytes(b"".join(lines[:-10]) + b"garbage\n")
    done = densecore("diff", str(trace), "bad.dct", cwd=tmp_path)
    assert done.returncode == 2
    assert "Unusable from the damaged line on" in done.stdout and "equal" in done.stdout
    explained = densecore("explain", str(trace), "bad.dct", "--no-replay", cwd=tmp_path)
    assert explained.returncode == 2 and "only what comes before was compared" in explained.stderr
