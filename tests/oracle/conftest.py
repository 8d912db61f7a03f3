"""One booted oracle for the whole session; tests that need it are skipped where its wheel cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_densecore.oracle import Oracle, WheelError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here except the tests of wheel files runs the reference wheel."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.path.name != "test_wheel.py":
            item.add_marker(pytest.mark.oracle)


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """The oracle with the default profile."""
    try:
        return Oracle()
    except WheelError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def _reset(request: pytest.FixtureRequest) -> None:
    if "oracle" in request.fixturenames:
        request.getfixturevalue("oracle").num_threads = 4
