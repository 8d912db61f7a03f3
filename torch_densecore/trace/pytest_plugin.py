"""pytest plugin: `densecore_golden` compares a test's operators with a stored trace, bit for bit.

    def test_loss(densecore_golden):
        with densecore_golden():
            loss = train_step()

The golden trace lies beside the test file, in `goldens/<test>.dct`. `pytest --densecore-update` records it anew; without a
golden the test fails and says so. `densecore_golden("name")` chooses the name, for several blocks in one test.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

OPTION = "--densecore-update"
SHOWN = 5  # origins in a failure's message


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("densecore", "bit-exact golden traces")
    group.addoption(OPTION, action="store_true", default=False, help="record the golden traces anew")


@pytest.fixture
def densecore_golden(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Context manager factory: the block's operators must have the bits of the stored trace."""
    folder = request.path.parent / "goldens"
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")

    def golden(name: str | None = None) -> Any:
        path = folder / f"{name or test}.dct"
        if request.config.getoption(OPTION):
            return _recorded(path)
        return _compared(path, tmp_path / "run.dct")

    return golden


@contextlib.contextmanager
def _recorded(path: Path) -> Iterator[None]:
    from .recorder import record

    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with record(fresh):
        yield
    fresh.replace(path)  # a failing block leaves the old golden as it was


@contextlib.contextmanager
def _compared(golden: Path, run: Path) -> Iterator[None]:
    from .comparison import compare
    from .errors import TraceError
    from .recorder import record

    if not golden.is_file():
        pytest.fail(f"no golden trace {golden}; record it with pytest {OPTION}", pytrace=False)
    with record(run, keep="first-divergence", against=golden):
        yield
    try:
        result = compare(golden, run)
    except TraceError as error:
        pytest.fail(str(error), pytrace=False)
    if result.differ or result.problems:
        pytest.fail(failure_text(result), pytrace=False)


def failure_text(result: Any) -> str:
    """The verdict, the first origins and what differs in the environment."""
    from .terminal import ordered, size_text, verdict_text

    lines = [verdict_text(result)[0]]
    for origin in ordered(result.origins)[:SHOWN]:
        where = origin.module or "outside modules"
        lines.append(f"  {origin.op}, {where}, {origin.source}: {origin.kind}, {size_text(origin.difference)}")
    lines += [f"  environment: {name}: {a} / {b}" for name, a, b in result.environment]
    lines.append(f"golden: {result.a.path}; to see more: densecore explain {result.a.path} {result.b.path}")
    return "\n".join(lines)
