"""Profiles with other fields, as the extension's kernels read them; they follow `profile.use`."""

from __future__ import annotations

from typing import Any

from torch_densecore import arithmetic, profile
from torch_densecore.native_profile import native

Fields = tuple[tuple[str, Any], ...]

_slots: dict[str, tuple[str, Fields, Any]] = {}


def slot(op: str, fields: Fields) -> Any:
    """The `_C.ProfileSlot` of the op's profile, which is the current one or what a probe says of the op, with `fields` replaced.

    None without fields.
    """
    from torch_densecore import _C

    if not fields:
        return None
    if not _slots:
        profile.subscribe(_follow)
    key = repr((op, fields))
    if key not in _slots:
        _slots[key] = (op, fields, _C.ProfileSlot())
        _set(*_slots[key], profile.current())
    return _slots[key][-1]


def _follow(current: profile.Profile) -> None:
    for op, fields, one in _slots.values():
        _set(op, fields, one, current)


def _set(op: str, fields: Fields, one: Any, current: profile.Profile) -> None:
    unknown = arithmetic.UNKNOWN in (arithmetic.entry_of(current, op) or {})  # then the device refuses the op
    base = current if unknown else arithmetic.profile_of(current, op)
    one.set(native(base.replace(**dict(fields))))
