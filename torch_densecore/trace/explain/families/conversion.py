"""Conversions: how bfloat16 is rounded, what happens to floats outside an integer's range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...replay import Call
from ..model import Family, Model, model, numpy_of


def _convert(call: Call) -> Iterator[Model]:
    x, target = numpy_of(call.inputs[-1].float()), call.site.outputs[0]["dtype"]
    if target == "bfloat16":
        bits = x.view(np.uint32)
        yield model(lambda: (bits >> 16).astype(np.uint16), rounding="bfloat16 by truncation")
        even = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        yield model(lambda: even, rounding="bfloat16 rounded to nearest even")
    elif target in ("int8", "int16", "int32", "int64", "uint8"):
        kind = np.dtype(target)
        limits = np.iinfo(kind)
        clipped = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), float(limits.min), float(limits.max))
        with np.errstate(invalid="ignore"):
            top = np.where(clipped >= float(limits.max), limits.max, clipped.astype(np.int64))
        yield model(lambda: top.astype(kind), range="values out of range saturate, NaN is 0 (Arm)")
        wide = np.where(np.abs(x) < 2.0**63, x, -(2.0**63)).astype(np.int64)
        yield model(lambda: wide.astype(kind), range="values out of range wrap around (x86)")
        lost = np.where((x >= -(2.0**31)) & (x < 2.0**31), x, -(2.0**31)).astype(np.int64)
        yield model(lambda: lost.astype(kind), range="values out of range become the smallest integer (x86)")


FAMILIES: dict[str, Family] = {"_to_copy": _convert, "copy_": _convert}
