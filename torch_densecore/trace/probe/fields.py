"""Which fields of a profile give this machine's bits, op by op: the choices of arithmetic are tried in numpy on examples.

A choice is kept only if it gives every bit of every example. Where several do, they cannot be told apart, and the first is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..digest import tensor_digest
from ..explain import orders
from ..explain.arith import F32, Array
from .functions import exponentials, libm_name, log_sleef
from .values import small_values

Fields = dict[str, Any]
Example = tuple[Callable[[], torch.Tensor], Callable[[Fields], Array]]  # what torch computes, and a choice of fields

LANES = (4, 8, 16)
JOINS = {"halves": "halves", "adjacent": "adjacent", "in_order": "order"}  # of a profile, and their names in explain.orders
CONTRACTIONS = ("none", "clang", "gcc")
ROWS = (1, 3, 7, 13, 30, 33, 64, 65, 100, 128, 257, 384, 1000)
MATRICES = "mm mm.out addmm addmm.out addmm_ addbmm addbmm.out addbmm_ dot vdot"
BATCHES = "bmm bmm.out baddbmm baddbmm.out baddbmm_"
VECTORS = "addmv addmv.out addmv_"
PRODUCTS = f"{MATRICES} {BATCHES} {VECTORS}"
QUICK_ROWS = (3, 13, 33, 65, 384)


def probe(rows: tuple[int, ...] = ROWS, table: dict[str, Any] | None = None) -> dict[str, Fields]:
    """`Profile.ops`: fields by op, or {"unknown": reason}. `table`: what is known of matrix products."""
    library = libm_name()
    if library is None:
        return {"aten::*": {"unknown": "the C library of this machine has no model"}}
    families: dict[str, tuple[list[Example], list[Fields]]] = {
        "sum.dim_IntList sum.IntList_out nansum nansum.out mean.dim mean.out": (list(_sums(rows)), _choices(lanes=LANES)),
        "_softmax _softmax.out _safe_softmax": (list(_softmax(rows, False)), _softmax_choices(library)),
        "_log_softmax _log_softmax.out": (list(_softmax(rows, True)), _softmax_choices(library)),
        "_softmax_backward_data _softmax_backward_data.out": (
            list(_softmax_backward(rows, False)),
            _choices(lanes=LANES, lane_join=JOINS, contract=CONTRACTIONS),
        ),
        "_log_softmax_backward_data _log_softmax_backward_data.out": (
            list(_softmax_backward(rows, True)),
            _softmax_choices(library, CONTRACTIONS),
        ),
        "native_layer_norm": (list(_layer_norm(rows)), _choices(lanes=LANES, fma=(True, False), contract=CONTRACTIONS)),
    }
    if table is not None:
        families |= {
            MATRICES: ([], [{"fma": True}]),  # the table has been verified
            VECTORS: (list(_addmv_loops()), _choices(fma=(True,), contract=CONTRACTIONS)),
            BATCHES: (
                list(_small_bmm()) + list(_large_bmm(table)),
                _choices(fma=(True,), contract=("none", "gcc", "clang")),
            ),
        }
    no_table = {} if table else {f"aten::{name}": {"unknown": "no order of matrix products is known"} for name in PRODUCTS.split()}
    found: dict[str, Fields] = no_table
    for names, (examples, choices) in families.items():
        fitting = fits(examples, choices)
        reason = f"none of {len(choices)} choices gives the bits of {len(examples)} examples"
        found |= {f"aten::{name}": fitting[0] if fitting else {"unknown": reason} for name in names.split()}
    return found


def fits(examples: list[Example], choices: list[Fields]) -> list[Fields]:
    """The choices that give the bits of all examples."""
    left = choices
    for compute, model in examples:
        wanted = compute()
        left = [choice for choice in left if _equal(model(choice), wanted)]
    return left


def _equal(values: Array, wanted: torch.Tensor) -> bool:
    return tensor_digest(torch.from_numpy(np.ascontiguousarray(values, F32))) == tensor_digest(wanted.contiguous())


def _choices(**values: Any) -> list[Fields]:
    return [dict(zip(values, choice, strict=True)) for choice in product(*values.values())]


def _softmax_choices(library: str, contractions: tuple[str, ...] = ()) -> list[Fields]:
    more = {"contract": contractions} if contractions else {}
    return _choices(lanes=LANES, lane_join=JOINS, exp=exponentials(), libm=(library,), **more)


# -- sums -----------------------------------------------------------------------------------------------------------


def _sums(rows: tuple[int, ...]) -> Iterator[Example]:
    for n in rows:
        x = small_values(24, n)
        yield partial(x.sum, -1), lambda choice, x=x: orders.cascade(x.numpy(), choice["lanes"])
        if n > 1:  # one column is a row
            yield partial(x.sum, 0), lambda choice, x=x: orders.outer(x.numpy(), choice["lanes"])
    for n in (32767, 32768, 70001):
        x = small_values(n)
        yield x.sum, partial(_long_sum, x.numpy())


def _long_sum(x: Array, choice: Fields) -> Array:
    return orders.cascade_chunks(x[None], choice["lanes"], torch.get_num_threads()).reshape(())


# -- softmax --------------------------------------------------------------------------------------------------------


def _softmax(rows: tuple[int, ...], logarithm: bool) -> Iterator[Example]:
    function = F.log_softmax if logarithm else F.softmax
    for n in rows:
        x = small_values(64, n) * 4
        yield partial(function, x, -1), partial(_row_softmax, x.numpy(), logarithm)
    for inner in (1, 4, 5, 19, 37):  # not the last dimension: columns that fill no vector take the C library's exp
        x = small_values(2, 21, inner) * 4
        yield partial(function, x, 1), partial(_column_softmax, x.numpy(), logarithm)


def _row_softmax(x: Array, logarithm: bool, choice: Fields) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    e = exponentials()[choice["exp"]](shifted)
    total = orders.lane_reduce(e, choice["lanes"], JOINS[choice["lane_join"]])[..., None]
    return shifted - log_sleef(total) if logarithm else e * (F32(1) / total)


def _column_softmax(x: Array, logarithm: bool, choice: Fields) -> Array:
    if logarithm:
        shifted = x - x.max(1, keepdims=True)
        return shifted - log_sleef(_column_sum(_column_exp(shifted, choice)))
    y, (outer, _, inner) = np.empty_like(x), x.shape
    for begin, end in _chunks(outer * inner):
        for o in range(begin // inner, -(-end // inner)):
            part = np.s_[o : o + 1, :, max(begin - o * inner, 0) : min(end - o * inner, inner)]
            e = _column_exp(x[part] - x[part].max(1, keepdims=True), choice)
            y[part] = e / _column_sum(e)
    return y


def _chunks(columns: int) -> Iterator[tuple[int, int]]:
    """What the threads get, down to single columns; the vectors begin anew with each chunk."""
    size = -(-columns // min(torch.get_num_threads(), columns))
    return ((begin, min(begin + size, columns)) for begin in range(0, columns, size))


def _column_exp(x: Array, choice: Fields) -> Array:
    """exp of (outer, dim, inner): whole vectors along the inner dimension, and the rest by the C library."""
    whole = x.shape[-1] // choice["lanes"] * choice["lanes"]
    functions = exponentials()
    return np.concatenate([functions[choice["exp"]](x[..., :whole]), functions["libm"](x[..., whole:])], -1)


def _column_sum(x: Array) -> Array:
    return orders.sequential(np.moveaxis(x, 1, -1))[:, None]


def _softmax_backward(rows: tuple[int, ...], logarithm: bool) -> Iterator[Example]:
    op = torch.ops.aten._log_softmax_backward_data if logarithm else torch.ops.aten._softmax_backward_data
    shapes = [(64, n) for n in rows] + [(2, 21, inner) for inner in (1, 5, 19, 37)]
    for shape in shapes:
        y, g = small_values(*shape) / 2 - 3 * logarithm, small_values(*shape).flip(0)
        model = _row_backward if len(shape) == 2 else _column_backward
        yield partial(op, g, y, 1, torch.float32), partial(model, g.numpy(), y.numpy(), logarithm)


def _row_backward(g: Array, y: Array, logarithm: bool, choice: Fields) -> Array:
    lanes, join, by_gcc = choice["lanes"], JOINS[choice["lane_join"]], choice["contract"] == "gcc"
    if logarithm:
        total = orders.lane_reduce(g, lanes, join)[..., None]
        return orders.multiply_add(-exponentials()[choice["exp"]](y), total, g, by_gcc)
    return (g - _product_sum(g, y, lanes, join, by_gcc)[..., None]) * y


def _product_sum(g: Array, y: Array, lanes: int, join: str, fused_end: bool) -> Array:
    """map2_reduce_all of products: GCC fuses the step of a last, partial vector alone."""
    n = g.shape[-1]
    whole = n // lanes * lanes
    if not fused_end or whole in (0, n):
        return orders.lane_reduce(g * y, lanes, join)
    vectors = (g * y)[..., :whole].reshape(*g.shape[:-1], -1, lanes)
    acc = orders.sequential_from_first(np.moveaxis(vectors, -2, -1))
    end = orders.multiply_add(g[..., whole:], y[..., whole:], acc[..., : n - whole], True)
    return orders.combine(np.concatenate([end, acc[..., n - whole :]], -1), join)


def _column_backward(g: Array, y: Array, logarithm: bool, choice: Fields) -> Array:
    inner = g.shape[-1]
    in_vector = np.arange(inner) < inner // choice["lanes"] * choice["lanes"]
    fused = np.where(in_vector, choice["contract"] == "gcc", choice["contract"] != "none")
    if logarithm:
        return _where_fused(fused, -_column_exp(y, choice), np.broadcast_to(_column_sum(g), y.shape), g)
    total = np.zeros((g.shape[0], 1, inner), F32)
    for d in range(g.shape[1]):
        total = _where_fused(fused, g[:, d : d + 1], y[:, d : d + 1], total)
    return y * (g - total)


def _where_fused(fused: Array, a: Array, b: Array, c: Array) -> Array:
    return np.where(fused, orders.multiply_add(a, b, c, True), orders.multiply_add(a, b, c, False))


# -- layer norm -----------------------------------------------------------------------------------------------------


def _layer_norm(rows: tuple[int, ...]) -> Iterator[Example]:
    for n in rows:
        x, weight, bias = small_values(256 if n < 33 else 16, n), small_values(n), small_values(n).flip(0) * 0.5
        for gamma, beta in ((weight, bias), (weight, None), (None, bias), (None, None)):
            yield partial(F.layer_norm, x, (n,), gamma, beta), partial(_normalized, x.numpy(), gamma, beta)


def _normalized(x: Array, gamma: torch.Tensor | None, beta: torch.Tensor | None, choice: Fields) -> Array:
    contract = choice["contract"]
    mean, variance = orders.moments(x, choice["lanes"], choice["fma"], contract == "clang")
    rstd = (F32(1) / np.sqrt(variance + F32(1e-5))).astype(F32)[:, None]
    centered = x - mean[:, None]
    if gamma is None and beta is not None and contract == "gcc":  # the factor 1 is left out before fusing
        return orders.multiply_add(centered, rstd, np.broadcast_to(beta.numpy(), x.shape), True)
    fused = contract == "gcc" or (contract == "clang" and (gamma is None or beta is None))
    factor = np.ones_like(x) if gamma is None else np.broadcast_to(gamma.numpy(), x.shape)
    addend = np.zeros_like(x) if beta is None else np.broadcast_to(beta.numpy(), x.shape)
    return orders.multiply_add(centered * rstd, factor, addend, fused)


# -- products -------------------------------------------------------------------------------------------------------


def _addmv_loops() -> Iterator[Example]:
    """torch's own loops, for a vector whose elements are one and the same."""
    start, x = small_values(33), small_values(1)
    for depth in (5, 64):  # a single element has no step of 0
        matrix = small_values(33, depth)
        for each in (matrix, matrix.t().contiguous().t()):
            call = partial(torch.addmv, start, each, x.expand(depth), beta=0.3, alpha=0.7)
            yield call, partial(_vector_loops, start.numpy(), matrix.numpy(), x.numpy(), each.stride(0) == 1)


def _vector_loops(start: Array, matrix: Array, x: Array, by_columns: bool, choice: Fields) -> Array:
    fused, alpha, beta = choice["contract"] != "none", F32(0.7), F32(0.3)
    total = beta * start if by_columns else np.zeros_like(start)
    for column in matrix.T:
        total = orders.multiply_add(alpha * x if by_columns else x, column, total, fused)
    return total if by_columns else orders.multiply_add(beta, start, (alpha * total).astype(F32), fused)


def _small_bmm() -> Iterator[Example]:
    """torch's own loops below m * n * k = 400."""
    for m, k, n in ((4, 5, 6), (3, 33, 4), (7, 7, 7)):
        start, left, right = small_values(2, m, n), small_values(2, m, k), small_values(2, k, n)
        for second in (right, right.transpose(1, 2).contiguous().transpose(1, 2)):
            yield partial(torch.bmm, left, second), partial(_loops, left, second, None)
            call = partial(torch.baddbmm, start, left, second, beta=0.3, alpha=0.7)
            yield call, partial(_loops, left, second, start)


def _loops(first: torch.Tensor, second: torch.Tensor, addend: torch.Tensor | None, choice: Fields) -> Array:
    """clang turns the loop into vector code, whose products are rounded, where both matrices are contiguous along k."""
    left, right, start = first.numpy(), second.numpy(), None if addend is None else addend.numpy()
    fused, vector = choice["contract"] != "none", choice["contract"] == "clang" and second.stride(1) == 1
    shape = (*left.shape[:2], right.shape[2])
    rounded = left.shape[-1] // 4 * 4 if vector else 0
    total = np.zeros(shape, F32)
    for k in range(left.shape[-1]):
        total = orders.multiply_add(left[:, :, k : k + 1], right[:, k : k + 1, :], total, fused and k >= rounded)
    if start is None:
        return total
    return orders.multiply_add(start, F32(0.3), (F32(0.7) * total).astype(F32), fused)


def _large_bmm(table: dict[str, Any]) -> Iterator[Example]:
    """Larger ones: sgemm for each matrix."""
    for k in (64, 385):
        if k <= table["largest_depth"]:
            left, right = small_values(3, 20, k), small_values(3, k, 17)
            yield partial(torch.bmm, left, right), lambda _choice, x=left, y=right: torch.stack(list(map(torch.mm, x, y))).numpy()
