"""One declaration per op: how the device serves it, for which dtypes, and why that gives the reference's bits.

Tiers, per op and dtype:

- `kernel`: a C++ kernel of ours (csrc/aten) computes it.
- `exact`: the host's CPU kernel computes it, without a copy, and the reference's kernel gives the same bits on every host.
- `oracle`: the reference wheel itself computes it in the emulator; chosen by strictness, not declared.
- `uncertified`: none of these; `strictness` decides what happens.

The declarations are in `torch_densecore/ops/`, one file per family.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import torch

BOOL = frozenset({torch.bool})
INTEGRAL = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool})
FLOAT32 = frozenset({torch.float32})
FLOATING = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
REAL = INTEGRAL | FLOATING
COMPLEX = frozenset({torch.complex32, torch.complex64, torch.complex128})
ANY = REAL | COMPLEX

KERNEL, EXACT, UNCERTIFIED = "kernel", "exact", "uncertified"


@dataclass
class Op:
    """How one op is served. `reason` says why the bits are the reference's, `source` where the arithmetic comes from.

    `groups`: the families (files of `torch_densecore/ops/`) and kinds ("reduction", "transcendental") that overrides address as
    "@blas". `fields`: the fields of a `Profile` that its kernel heeds, so that an override of the op may set them.
    """

    name: str
    kernel: set[torch.dtype] = field(default_factory=set)
    exact: set[torch.dtype] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    groups: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)

    def tier(self, dtype: torch.dtype | None = None) -> str:
        """The tier for a dtype; without one, the best tier that any dtype has."""
        if dtype in self.kernel or (dtype is None and self.kernel):
            return KERNEL
        if dtype in self.exact or (dtype is None and self.exact):
            return EXACT
        return UNCERTIFIED


_ops: dict[str, Op] = {}
_family = ""  # the file of torch_densecore/ops/ whose declarations are being read


def _declare(
    tier: str, names: str, dtypes: Iterable[torch.dtype], reason: str, source: str, groups: str = "", fields: str = ""
) -> None:
    for word in names.split():
        name = f"aten::{word}"
        op = _ops.setdefault(name, Op(name))
        op.groups.update({_family} - {""}, groups.split())
        op.fields.update(fields.split())
        own, other = (op.kernel, op.exact) if tier == KERNEL else (op.exact, op.kernel)
        own.update(set(dtypes) - other if tier == EXACT else dtypes)
        other -= own
        for text, texts in ((reason, op.reasons), (source, op.sources)):
            if text and text not in texts:
                texts.append(text)


def kernel(
    names: str, dtypes: Iterable[torch.dtype] = FLOAT32, *,
    reason: str = "", source: str = "", groups: str = "", fields: str = "",
) -> None:  # fmt: skip
    """Declares kernels of ours: `names` are words such as "mm mm.out" (namespace aten), `dtypes` those the C++ code claims.

    `groups` and `fields` are words: kinds of arithmetic, and the profile's fields that the kernel heeds (see `Op`).
    """
    _declare(KERNEL, names, dtypes, reason, source, groups, fields)


def exact(names: str, dtypes: Iterable[torch.dtype], *, reason: str, source: str = "", groups: str = "") -> None:
    """Declares ops that the host's kernel computes with the reference's bits for `dtypes`.

    A call is exact if the dtypes of all its tensors (Python numbers aside) are declared. `reason` is required.
    """
    _declare(EXACT, names, dtypes, reason, source, groups)


@cache
def load() -> dict[str, Op]:
    """All declarations, by full op name ("aten::add.Tensor")."""
    from torch_densecore import ops

    global _family
    for module in pkgutil.iter_modules(ops.__path__):
        _family = module.name
        importlib.import_module(f"{ops.__name__}.{module.name}")
    _family = ""
    return _ops


def get(name: str) -> Op:
    """The declaration of an op; one without any is uncertified for every dtype."""
    return load().get(name) or Op(name)


def apply() -> None:
    """Tells the extension which dtypes are exact."""
    from torch_densecore import _C

    numbers = {getattr(torch, name): number for name, number in _C.scalar_types() if hasattr(torch, name)}
    for op in load().values():
        if op.exact:
            _C.set_exact(op.name, sum(1 << numbers[dtype] for dtype in op.exact))
