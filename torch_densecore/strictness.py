"""What happens when an op has neither a kernel nor a certificate for a dtype.

`error` raises `UncertifiedOpError`; `warn` lets the host's CPU kernel run and warns once per op and dtype; `host` does so
silently; `oracle` runs the op in the reference wheel (exact, and recommended for models that need such ops). The mode of a
process is the environment variable DENSECORE_UNCERTIFIED, else `DEFAULT`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

DEFAULT = "error"
MODES = ("error", "warn", "oracle", "host")


class UncertifiedOpError(NotImplementedError):
    """An op without a kernel or certificate was called in strict mode. The message names op, dtype, profile and ways on."""


def set_uncertified(mode: str) -> None:
    """Sets the mode of the process: one of `MODES`. Raises ValueError for another word."""
    from torch_densecore import _C

    if mode not in MODES:
        raise ValueError(f"torch_densecore: unknown mode {mode!r} for uncertified ops; expected one of {', '.join(MODES)}")
    _C.set_uncertified_mode(mode)


def get_uncertified() -> str:
    """The mode in force."""
    from torch_densecore import _C

    return _C.uncertified_mode()


@contextlib.contextmanager
def uncertified(mode: str) -> Iterator[None]:
    """Another mode while the context lasts, for the whole process."""
    before = get_uncertified()
    set_uncertified(mode)
    try:
        yield
    finally:
        set_uncertified(before)


def _run_in_oracle(name: str, overload: str, args: tuple[Any, ...]) -> Any:
    from torch_densecore import profile
    from torch_densecore.oracle import tier  # booted when the mode `oracle` first needs it

    if profile.current().probed:
        raise UncertifiedOpError(f"{name}: the oracle runs the macOS arm64 wheel, which profile {profile.current().name!r} is not")
    return tier.run(name, overload, args)


def apply() -> None:
    """Attaches the oracle and sets the mode that the environment asks for."""
    from torch_densecore import _C

    _C.attach_oracle(_run_in_oracle)
    set_uncertified(os.environ.get("DENSECORE_UNCERTIFIED") or DEFAULT)
