"""Which ops a word of an override names: `aten::mm`, `mm`, `add.Tensor`, `mm.default`, `*softmax*`, `@blas`."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

import torch

from torch_densecore import registry
from torch_densecore.overrides.errors import OverrideError
from torch_densecore.overrides.settings import near

GROUP, PATTERN, NAME, OVERLOAD = range(4)  # how closely a word names an op


@dataclass(frozen=True)
class Match:
    """The ops that a word names, and how closely."""

    ops: tuple[str, ...]
    closeness: int


def base_name(op: str) -> str:
    """`aten::add` of `aten::add.Tensor`."""
    return op.partition(".")[0]


@cache
def overridable() -> dict[str, bool]:
    """Every op that can be overridden -> whether patterns and groups reach it.

    They do not reach what torch composes of other such ops.
    """
    from torch_densecore import _C

    # torch makes an out form for every op; it calls the functional form, which may not be overridable
    return {op: plain for op, plain in _C.overridable_ops() if plain or not op.endswith("out")}


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """The groups that `torch_densecore/ops/` declares, without the @: families by file name, and kinds of arithmetic."""
    found: dict[str, list[str]] = {}
    for name, op in registry.load().items():
        for group in op.groups:
            if overridable().get(name):
                found.setdefault(group, []).append(name)
    return {group: tuple(sorted(ops)) for group, ops in sorted(found.items())}


def match(word: str) -> Match:
    """The ops that a word names; raises OverrideError when there are none."""
    if word.startswith("@"):
        return _group(word)
    if any(sign in word for sign in "*?["):
        return _pattern(word)
    return _name(word if "::" in word else f"aten::{word}")


def _group(word: str) -> Match:
    known = groups()
    if word[1:] not in known:
        names = [f"@{name}" for name in known]
        raise OverrideError(f"unknown group {word!r}{near(word, names)} Groups: {', '.join(names)}")
    return Match(known[word[1:]], GROUP)


def _pattern(word: str) -> Match:
    pattern = word if "::" in word or word.startswith("*") else f"aten::{word}"
    ops = [op for op, plain in overridable().items() if plain and (fnmatchcase(op, pattern) or fnmatchcase(base_name(op), pattern))]
    if not ops:
        raise OverrideError(f"no op that can be overridden matches {word!r}{_near_ops(word.strip('*'))}")
    return Match(tuple(sorted(ops)), PATTERN)


def _name(name: str) -> Match:
    known = overridable()
    if "." in name:
        exact = name.removesuffix(".default")
        if exact in known:
            return Match((exact,), OVERLOAD)
        raise OverrideError(_why_not(name))
    overloads = [op for op in known if base_name(op) == name]
    ops = [op for op in overloads if known[op]] or overloads
    if not ops:
        raise OverrideError(_why_not(name))
    return Match(tuple(sorted(ops)), NAME)


def _why_not(name: str) -> str:
    if not _is_op_of_torch(name):
        return f"unknown op {name!r}{_near_ops(name)} `densecore coverage` lists the device's ops"
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(op, "CompositeImplicitAutograd") for op in _schemas(name)):
        return f"{name!r} cannot be overridden: torch composes it of other ops. Override those (`densecore record` shows them)"
    return f"{name!r} cannot be overridden: it computes nothing, or has no kernel on the device"


def _near_ops(name: str) -> str:
    known = overridable()
    return near(name if "::" in name else f"aten::{name}", {base_name(op) for op in known} | set(known))


@cache
def _all_schemas() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())


def _is_op_of_torch(name: str) -> bool:
    return bool(_schemas(name))


def _schemas(name: str) -> list[str]:
    name = name.removesuffix(".default")
    return [op for op in _all_schemas() if name in (op, base_name(op))]
