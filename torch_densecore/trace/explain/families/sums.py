"""sum and mean: lanes of the cascade, thread chunks, other orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array
from ..model import GRAIN, LANE_NAMES, LANES, THREADS, Family, Model, argument, model, numpy_of, thread_words


def _sum(call: Call, scale: Callable[[Array, int], Array] = lambda total, count: total) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    dims = argument(call, 1, "dim") if ".dim" in call.site.op else None
    dims = sorted(d % x.ndim for d in (dims if isinstance(dims, list) else range(x.ndim)))
    shape = tuple(call.site.outputs[0]["shape"])
    if dims == list(range(x.ndim - len(dims), x.ndim)):
        rows = x.reshape(int(np.prod(x.shape[: x.ndim - len(dims)], dtype=int)), -1)
        count = rows.shape[1]
        yield model(lambda: scale(orders.sequential(rows), count).reshape(shape), order="adds from left to right")
        yield model(lambda: scale(orders.pairwise(rows), count).reshape(shape), order="adds halves recursively")
        for lanes, threads in product(LANES, THREADS if rows.shape[0] == 1 and count >= GRAIN else (1,)):
            yield model(
                lambda n=lanes, t=threads: scale(orders.cascade_chunks(rows, n, t), count).reshape(shape),
                order=f"adds in {LANE_NAMES[lanes]}",
                threads=thread_words(threads),
            )
    elif dims == list(range(len(dims))):
        columns = x.reshape(int(np.prod(x.shape[: len(dims)], dtype=int)), -1)
        count = columns.shape[0]
        yield model(lambda: scale(orders.sequential(columns.T), count).reshape(shape), order="adds from left to right")
        for lanes in LANES:
            yield model(
                lambda n=lanes: scale(orders.outer(columns, n), count).reshape(shape),
                order=f"adds columns in blocks of {4 * lanes} ({LANE_NAMES[lanes]})",
            )


def _mean(call: Call) -> Iterator[Model]:
    yield from _sum(call, lambda total, count: (total / F32(count)).astype(F32))


FAMILIES: dict[str, Family] = {"sum": _sum, "mean": _mean}
