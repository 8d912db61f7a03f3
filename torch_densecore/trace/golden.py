"""Golden traces for tests: records a block, or compares it with what was recorded (see pytest_densecore.py)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .comparison import Comparison, compare
from .errors import TraceError
from .recorder import record
from .terminal import ordered, size_text, verdict_text

SHOWN = 5  # origins in a failure's message


@contextlib.contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Records the block as the new golden trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with record(fresh):
        yield
    fresh.replace(path)  # a failing block leaves the old golden as it was


@contextlib.contextmanager
def compared(golden: Path, run: Path, fail: Callable[[str], Any]) -> Iterator[None]:
    """Records the block to `run` and calls `fail` with a message when its bits are not those of the golden trace."""
    if not golden.is_file():
        fail(f"no golden trace {golden}; record it with pytest --densecore-update")
    with record(run, keep="first-divergence", against=golden):
        yield
    try:
        result = compare(golden, run)
    except TraceError as error:
        fail(str(error))
        return
    if result.differ or result.problems:
        fail(failure_text(result))


def failure_text(result: Comparison) -> str:
    """The verdict, the first origins and what differs in the environment."""
    lines = [verdict_text(result)[0]]
    for origin in ordered(result.origins)[:SHOWN]:
        where = origin.module or "outside modules"
        lines.append(f"  {origin.op}, {where}, {origin.source}: {origin.kind}, {size_text(origin.difference)}")
    lines += [f"  environment: {name}: {a} / {b}" for name, a, b in result.environment]
    lines.append(f"golden: {result.a.path}; to see more: densecore explain {result.a.path} {result.b.path}")
    return "\n".join(lines)
