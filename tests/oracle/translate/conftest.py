"""One translated oracle for these tests; the ones that need no wheel do not use it."""

from __future__ import annotations

import platform

import pytest

if platform.machine() not in ("x86_64", "AMD64"):
    pytest.skip("translation needs an x86-64 host", allow_module_level=True)
pytest.importorskip("llvmlite")


@pytest.fixture(scope="session")
def translated():  # type: ignore[no-untyped-def]
    """A booted oracle that runs translated code."""
    from torch_densecore.oracle import Oracle

    return Oracle(translate=True)
