"""How the device follows a profile: which op runs under which fields, and which ops it refuses.

An op's declaration (`torch_densecore/ops/`) names the fields that its kernel heeds. Under a profile that differs from the
default in another field that the op depends on it is refused: the default's bits would be a false answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch_densecore import blas_rules, registry
from torch_densecore.profile import CHOICES, Profile, ProfileError

RELEASE = "2.13.0"  # whose algorithms csrc/numerics has
UNKNOWN = "unknown"  # key of `Profile.ops` entries: the reason why a probe cannot tell
VARIANT_FIELDS = frozenset({*CHOICES, "libm"})
# Kernels whose bits are the same in every arithmetic: they move elements or make none. (copy_ refuses casts that differ itself.)
_MOVES = (
    "empty.memory_format empty_strided resize_ set_ set_.source_Storage set_.source_Storage_storage_offset "
    "set_.source_Tensor view _reshape_alias as_strided unfold view_as_real view_as_complex _local_scalar_dense copy_ "
    "sort.stable sort.values_stable"
)
INDEPENDENT = frozenset(f"aten::{name}" for name in _MOVES.split())


@dataclass(frozen=True)
class Plan:
    """What the device does under a profile: ops with fields of their own, and ops that it refuses with the reason."""

    own: dict[str, Profile] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def differences(profile: Profile) -> set[str]:
    """The fields of arithmetic that the certified kernels do not serve: those that are not the default's.

    A BLAS table with other rules is served by them as long as its orders are of the kind that Accelerate's are.
    """
    reference = Profile()
    found = {name for name in CHOICES if name != "casts" and getattr(profile, name) != getattr(reference, name)}
    if profile.libm["name"] != reference.libm["name"]:
        found.add("libm")
    return found if blas_rules.is_plain(profile.blas) else found | {"blas"}


def entry_of(profile: Profile, op: str) -> dict[str, Any] | None:
    """What a probed profile says about an op: of the patterns that match it the longest; None for nothing."""
    matching = [pattern for pattern in profile.ops if fnmatchcase(op, pattern)]
    return profile.ops[max(matching, key=len)] if matching else None


def profile_of(profile: Profile, op: str) -> Profile:
    """The profile under which one op runs: its own fields put into the common ones. Raises ProfileError where they are unknown."""
    entry = entry_of(profile, op) or {}
    if UNKNOWN in entry:
        raise ProfileError(f"{op}: the probe could not tell its arithmetic ({entry[UNKNOWN]})")
    return profile.replace(**entry)


def plan(profile: Profile) -> Plan:
    """Sorts all ops with a kernel of ours."""
    found = Plan()
    if not profile.probed and not differences(profile):
        return found
    for op in registry.load().values():
        if not op.kernel or op.name in INDEPENDENT:
            continue
        reason = _objection(profile, op)
        if reason:
            found.refused[op.name] = f"{op.name} on device 'densecore': {reason}. {_ways_on(op.name)}"
        elif profile.probed:
            found.own[op.name] = profile_of(profile, op.name)
    return found


def _objection(profile: Profile, op: registry.Op) -> str:
    """Why an op cannot follow the profile; "" if it can."""
    if not profile.probed:
        return _lacking(profile, _needed(profile, op))
    entry = entry_of(profile, op.name)
    if entry is None:
        return f"profile {profile.name!r} does not say how {profile.system} computes it"
    if UNKNOWN in entry:
        return f"profile {profile.name!r} does not know its arithmetic: {entry[UNKNOWN]}"
    return _lacking(profile_of(profile, op.name), set(entry) - op.fields)


def _needed(profile: Profile, op: registry.Op) -> set[str]:
    """The fields that the op's kernels lack. An op with variant kernels declares all it depends on, another may depend on any."""
    return set() if op.fields & VARIANT_FIELDS else differences(profile) - (op.fields - {"blas"})


def _lacking(profile: Profile, fields: set[str]) -> str:
    if not fields:
        return ""
    values = ", ".join(f"{name} = {_value(profile, name)!r}" for name in sorted(fields))
    return f"no kernel has the arithmetic of profile {profile.name!r} for it ({values})"


def _value(profile: Profile, name: str) -> Any:
    value = getattr(profile, name)
    return value["name"] if isinstance(value, dict) else value


def _ways_on(op: str) -> str:
    return (
        f"Ways on: override the op (torch_densecore.override({{{op!r}: \"host\"}})), DENSECORE_UNCERTIFIED=host (this machine's "
        "own CPU bits), or another DENSECORE_PROFILE"
    )


def apply(profile: Profile) -> None:
    """Tells the extension."""
    from torch_densecore import _C
    from torch_densecore.native_profile import native

    todo = plan(profile)
    _C.set_op_profiles([(op, native(own)) for op, own in todo.own.items()], list(todo.refused.items()))
