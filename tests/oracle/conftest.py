"""One booted oracle for the whole session."""

from __future__ import annotations

import pytest

from torch_densecore.oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """The oracle with the default profile."""
    return Oracle()


@pytest.fixture(autouse=True)
def _reset(request: pytest.FixtureRequest) -> None:
    if "oracle" in request.fixturenames:
        request.getfixturevalue("oracle").num_threads = 4
