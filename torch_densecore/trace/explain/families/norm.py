"""2-norms: linalg_vector_norm over everything or over rows, and _foreach_norm."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array, fma, multiply_add
from ..model import GRAIN, LANE_NAMES, LANES, THREADS, Family, Model, argument, fusion_words, model, numpy_of, thread_words

MAX_FUSED = 16384  # elements up to which chains of fused steps are tried, one step at a time


def _vector_norm(call: Call) -> Iterator[Model]:
    x = numpy_of(call.inputs[0])
    dims = argument(call, 2, "dim")
    dims = sorted(d % x.ndim for d in (dims if isinstance(dims, list) and dims else range(x.ndim)))
    if dims != list(range(x.ndim - len(dims), x.ndim)):
        return
    rows = x.reshape(int(np.prod(x.shape[: x.ndim - len(dims)], dtype=int)), -1)
    yield from _norms(call, [rows])


def _foreach_norm(call: Call) -> Iterator[Model]:
    yield from _norms(call, [numpy_of(tensor).reshape(1, -1) for tensor in call.inputs])


def _norms(call: Call, groups: list[Array]) -> Iterator[Model]:
    """One output for each group of rows."""
    if argument(call, 1, "ord", 2) != 2:
        return
    shapes = [tuple(meta["shape"]) for meta in call.site.outputs]

    def outputs(lanes: int, fused: bool, tail: bool, threads: int) -> list[Array]:
        norms = [np.sqrt(_squares(rows, lanes, fused, tail, threads)) for rows in groups]
        return [norm.reshape(shape) for norm, shape in zip(norms, shapes, strict=True)]

    long = any(rows.shape[0] == 1 and rows.shape[1] >= GRAIN for rows in groups)
    short = sum(rows.size for rows in groups) <= MAX_FUSED
    choices = product((1, *LANES), (False, True) if short else (False,), (False, True), THREADS if long else (1,))
    for lanes, fused, tail, threads in choices:
        if lanes == 1 and fused != tail:
            continue
        yield model(
            lambda n=lanes, f=fused, t=tail, c=threads: outputs(n, f, t, c),
            order=f"adds squares in {LANE_NAMES[lanes]}" if lanes > 1 else "adds squares from left to right",
            multiply_add=fusion_words(fused),
            tail=("fused" if tail else "rounded") + " in the tail" if lanes > 1 else "",
            threads=thread_words(threads),
        )


def _squares(rows: Array, lanes: int, fused: bool, tail: bool, threads: int) -> Array:
    """Sums of squares of rows; a single long row is cut into thread chunks whose sums are added in order."""
    n = rows.shape[1]
    if threads == 1 or rows.shape[0] > 1 or n < GRAIN:
        return _chunk_squares(rows, lanes, fused, tail)
    size = -(-n // min(threads, -(-n // GRAIN)))
    total = np.zeros(rows.shape[0], F32)
    for begin in range(0, n, size):
        total = total + _chunk_squares(rows[:, begin : begin + size], lanes, fused, tail)
    return total


def _chunk_squares(rows: Array, lanes: int, fused: bool, tail: bool) -> Array:
    whole = rows.shape[1] // lanes * lanes
    vectors = rows[:, :whole].reshape(rows.shape[0], -1, lanes)
    sums = _fused_chain(vectors) if fused else _chain((vectors * vectors).astype(F32))
    total = orders.combine(sums, "order")
    for i in range(whole, rows.shape[1]):
        total = multiply_add(rows[:, i], rows[:, i], total, tail)
    return total


def _chain(terms: Array) -> Array:
    """Sum along axis 1 in order."""
    return np.add.accumulate(terms, axis=1)[:, -1] if terms.shape[1] else np.zeros((terms.shape[0], terms.shape[2]), F32)


def _fused_chain(vectors: Array) -> Array:
    total = np.zeros((vectors.shape[0], vectors.shape[2]), F32)
    for i in range(vectors.shape[1]):
        total = fma(vectors[:, i], vectors[:, i], total)
    return total


FAMILIES: dict[str, Family] = {"linalg_vector_norm": _vector_norm, "_foreach_norm": _foreach_norm}
