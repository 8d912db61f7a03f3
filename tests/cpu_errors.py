"""Invalid arguments: the device must raise what the CPU op raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def assert_same_error(call: Callable[[str], object]) -> None:
    """`call(device)` must raise the same exception type with the same first line on the CPU and on densecore."""
    raised = []
    for device in ("cpu", "densecore"):
        with pytest.raises(Exception) as error:
            call(device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]
