"""Profiles with other fields, as the extension's kernels read them; they follow `profile.use`."""

from __future__ import annotations

from typing import Any

from torch_densecore import profile
from torch_densecore.native_profile import native

Fields = tuple[tuple[str, Any], ...]

_slots: dict[str, tuple[Fields, Any]] = {}


def slot(fields: Fields) -> Any:
    """The `_C.ProfileSlot` of the current profile with `fields` replaced; None without fields."""
    from torch_densecore import _C

    if not fields:
        return None
    if not _slots:
        profile.subscribe(_follow)
    key = repr(fields)
    if key not in _slots:
        _slots[key] = (fields, _C.ProfileSlot())
        _set(*_slots[key], profile.current())
    return _slots[key][1]


def _follow(current: profile.Profile) -> None:
    for fields, one in _slots.values():
        _set(fields, one, current)


def _set(fields: Fields, one: Any, current: profile.Profile) -> None:
    one.set(native(current.replace(**dict(fields))))
