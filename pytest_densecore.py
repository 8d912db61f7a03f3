"""pytest plugin: `densecore_golden` compares a test's operators with a stored trace, bit for bit.

    def test_loss(densecore_golden):
        with densecore_golden():
            loss = train_step()

The golden trace lies beside the test file, in `goldens/<test>.dct`. `pytest --densecore-update` records it anew; without a
golden the test fails and says so. `densecore_golden("name")` chooses the name, for several blocks in one test.

This module stands outside the package, whose import would import torch into every pytest run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTION = "--densecore-update"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("densecore", "bit-exact golden traces")
    group.addoption(OPTION, action="store_true", default=False, help="record the golden traces anew")


@pytest.fixture
def densecore_golden(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Context manager factory: the block's operators must have the bits of the stored trace."""
    from torch_densecore.trace import golden

    folder = request.path.parent / "goldens"
    test = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")

    def block(name: str | None = None) -> Any:
        path = folder / f"{name or test}.dct"
        if request.config.getoption(OPTION):
            return golden.recorded(path)
        return golden.compared(path, tmp_path / "run.dct", fail=_fail)

    return block


def _fail(message: str) -> None:
    pytest.fail(message, pytrace=False)
