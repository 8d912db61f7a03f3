"""Softmax and log-softmax over the last dimension, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array, fma
from ..functions import EXPONENTIALS
from ..model import LANE_NAMES, LANES, Family, Model, argument, base_of, fusion_words, model, numpy_of

ENDS = {"halves": "lanes added by halves", "adjacent": "adjacent lanes added", "order": "lanes added in order"}


def _softmax(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    if argument(call, 1, "dim") % x.ndim != x.ndim - 1:
        return
    logarithm = "log_softmax" in base_of(call)
    largest = x.max(-1, keepdims=True)
    shifted = x - np.where(np.isfinite(largest), largest, F32(0))
    exponentials = {name: exp(shifted) for name, exp in EXPONENTIALS.items()}
    for name, lanes, (final, end), divides in product(exponentials, LANES, ENDS.items(), (False, True)):
        if logarithm and divides:
            continue
        yield model(
            lambda e=exponentials[name], n=lanes, f=final, d=divides: _softmax_output(shifted, e, n, f, d, logarithm),
            function=name,
            order=f"adds in {LANE_NAMES[lanes]}",
            lanes=end,
            scaling="" if logarithm else "divides by the sum" if divides else "multiplies with the sum's reciprocal",
        )


def _softmax_output(shifted: Array, e: Array, lanes: int, final: str, divides: bool, logarithm: bool) -> Array:
    total = orders.lane_reduce(e, lanes, final)[..., None]
    if logarithm:
        return shifted - np.log(total.astype(np.float64)).astype(F32)
    total = np.where(total == 0, F32(1), total)  # a row that is masked as a whole stays 0
    return e / total if divides else e * (F32(1) / total)


def _softmax_backward(call: Call) -> Iterator[Model]:
    grad, y = (numpy_of(tensor) for tensor in call.inputs[:2])
    if argument(call, 2, "dim") % y.ndim != y.ndim - 1:
        return
    for lanes, (final, end), fused in product(LANES, ENDS.items(), (False, True)):
        yield model(
            lambda n=lanes, f=final, m=fused: _difference(grad, orders.lane_products(grad, y, n, m, f)[..., None], y),
            order=f"adds in {LANE_NAMES[lanes]}",
            lanes=end,
            multiply_add=fusion_words(fused),
        )


def _difference(grad: Array, total: Array, y: Array) -> Array:
    return ((grad - total) * y).astype(F32)


def _log_softmax_backward(call: Call) -> Iterator[Model]:
    grad, y = (numpy_of(tensor) for tensor in call.inputs[:2])
    if argument(call, 2, "dim") % y.ndim != y.ndim - 1:
        return
    exponentials = {name: exp(y) for name, exp in EXPONENTIALS.items()}
    forms: dict[bool, Callable[..., Array]] = {
        True: lambda e, total: fma(-e, total, grad),
        False: lambda e, total: (grad - e * total).astype(F32),
    }
    for name, lanes, (final, end), fused in product(exponentials, LANES, ENDS.items(), forms):
        yield model(
            lambda e=exponentials[name], n=lanes, f=final, m=fused: forms[m](e, orders.lane_reduce(grad, n, f)[..., None]),
            function=name,
            order=f"adds in {LANE_NAMES[lanes]}",
            lanes=end,
            multiply_add=fusion_words(fused),
        )


FAMILIES: dict[str, Family] = {
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": _softmax,
    "_softmax_backward_data": _softmax_backward,
    "_log_softmax_backward_data": _log_softmax_backward,
}
