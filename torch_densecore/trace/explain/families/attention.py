"""Flash attention on the CPU, forward and backward (FlashAttentionKernel.cpp), without a mask tensor.

Queries come in blocks of 32, 64 or 256 rows, keys in blocks of 512; between key blocks the forward pass rescales what it
has. The products inside are those of the machine's BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array, fma, multiply_add
from ..functions import EXPONENTIALS, Function, correctly_rounded, exp_sleef, with_libm
from ..model import LANES, MAX_WORK, REDUCTIONS, Family, Model, argument, fusion_words, model, numpy_of
from .products import Order

KEY_BLOCK = 512
MINUS_INFINITY = F32(-np.inf)
_exp = correctly_rounded(np.exp)


def query_block(queries: int) -> int:
    return 256 if queries >= 768 else 64 if queries >= 192 else 32


def _orders(k: int) -> list[Order]:
    """Orders of the products inside; blocks of k matter only where k is long."""
    if k <= 128:
        return [Order(), Order(fused=False)]
    return [Order(), Order(block=128, halves=True), Order(block=192, halves=True), Order(block=256), Order(block=384)]


class _Attention:
    """The operands of a call: (batch, heads, rows, head size) as numpy."""

    def __init__(self, call: Call, names: tuple[str, ...], causal_at: int) -> None:
        tensors = [numpy_of(tensor) for tensor in call.inputs[: len(names)]]
        positions = dict(zip(names, tensors, strict=True))
        query, key = positions["query"], positions["key"]
        self.queries, self.keys = query.shape[2], key.shape[2]
        self.part = self._choose_part(query.shape)
        self.values = positions if self.part is None else {n: t[self.part[:2]] for n, t in positions.items()}
        self.causal = bool(argument(call, causal_at, "is_causal", False))
        scale = argument(call, causal_at + 2, "scale")
        self.scale = F32(1 / math.sqrt(query.shape[3]) if scale is None else scale)
        self._kept: dict[tuple, Array] = {}

    def _choose_part(self, shape: tuple[int, ...]) -> tuple[slice, ...] | None:
        """Of a large call: some heads of the first batch, or one head's first block of queries."""
        batch, heads, queries, size = shape
        per_head = queries * self.keys * size
        if batch * heads * per_head <= MAX_WORK:
            return None
        if per_head <= MAX_WORK:
            return slice(0, 1), slice(0, min(heads, int(MAX_WORK // per_head)))
        return slice(0, 1), slice(0, 1), slice(0, query_block(queries))

    @property
    def limit(self) -> int:
        """Rows of queries that are computed."""
        return self.part[2].stop if self.part is not None and len(self.part) == 3 else self.queries

    def blocks(self) -> Iterator[tuple[slice, list[slice]]]:
        """Query blocks, each with its key blocks."""
        size = query_block(self.queries)
        for first in range(0, min(self.limit, self.queries), size):
            rows = slice(first, min(first + size, self.queries))
            keys = min(rows.stop, self.keys) if self.causal else self.keys
            yield rows, [slice(k, min(k + KEY_BLOCK, self.keys)) for k in range(0, keys, KEY_BLOCK)]

    def kept(self, compute: Callable[[], Array], *key: object) -> Array:
        """What several models need, computed once for each key."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def multiply(self, a: Array, b: Array, order: Order, *key: object) -> Array:
        """a (.., m, k) times b (.., k, n), kept under the order and `key`."""
        return self.kept(lambda: _multiply(a, b, order), order, *key)

    def hidden(self, rows: slice, columns: slice) -> Array:
        """True where causality hides a key."""
        row, column = np.ogrid[rows, columns]
        return (column > row) & self.causal


def _has_mask(call: Call) -> bool:
    return isinstance(call.site.args[1].get("attn_mask"), dict)


def _transposed(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _multiply(a: Array, b: Array, order: Order) -> Array:
    """a (.., m, k) times b (.., k, n)."""
    return order.dot(a[..., :, None, :], _transposed(b)[..., None, :, :])


# -- forward --------------------------------------------------------------------------------------------------------


def _forward(call: Call) -> Iterator[Model]:
    if _has_mask(call) or argument(call, 3, "dropout_p", 0.0):
        return
    attention = _Attention(call, ("query", "key", "value"), 4)
    shapes = [meta["shape"] for meta in call.site.outputs]
    choices = product(_orders(min(attention.keys, KEY_BLOCK)), EXPONENTIALS.items(), REDUCTIONS, _logarithms().items())
    for order, (name, exp), reduction, (logarithm, log) in choices:
        yield model(
            lambda o=order, e=exp, r=reduction, f=log: _forward_outputs(attention, o, e, r, f, shapes),
            attention.part,
            function=name,
            order=REDUCTIONS[reduction],
            products=order.words(),
            multiply_add=fusion_words(order.fused),
            logarithm=logarithm,
        )


def _logarithms() -> dict[str, Function]:
    return with_libm({"log correctly rounded": correctly_rounded(np.log)}, "log")


def _forward_outputs(
    attention: _Attention, order: Order, exp: Function, reduction: tuple[int, str], log: Function, shapes: list
) -> list[Array]:
    query, key, value = (attention.values[name] for name in ("query", "key", "value"))
    out, logsumexp = np.zeros_like(query), np.zeros(query.shape[:3], F32)
    for rows, columns in attention.blocks():
        largest = np.full((*query.shape[:2], rows.stop - rows.start, 1), MINUS_INFINITY)
        total, weighted = np.zeros_like(largest), np.zeros_like(query[:, :, rows])
        for block in columns:
            at = (rows.start, block.start)
            scores = attention.multiply(query[:, :, rows], _transposed(key[:, :, block]), order, "scores", *at)
            scores = np.where(attention.hidden(rows, block), MINUS_INFINITY, scores * attention.scale).astype(F32)
            top = np.maximum(largest, scores.max(-1, keepdims=True))
            weights, part = _weights((scores - top).astype(F32), exp, *reduction)
            tail = reduction[0] if weights.shape[-1] % max(LANES) else 0
            update = attention.multiply(weights, value[:, :, block], order, exp, tail, *at)
            if block.start:
                factor = _exp((largest - top).astype(F32))
                total, weighted = fma(factor, total, part), (weighted * factor + update).astype(F32)
            else:
                total, weighted = part, update
            largest = top
        out[:, :, rows] = weighted * (F32(1) / total)
        logsumexp[:, :, rows] = (largest + log(total))[..., 0]
    if attention.part is not None:
        return [out[:, :, : attention.limit]]
    return [out.reshape(shapes[0]), logsumexp.reshape(shapes[1])]


def _weights(shifted: Array, exp: Function, lanes: int, final: str) -> tuple[Array, Array]:
    """exp of a block's scores (vectors of `lanes`, libm in the tail) and each row's sum."""
    whole = shifted.shape[-1] // lanes * lanes
    weights = np.concatenate([exp(shifted[..., :whole]), _exp(shifted[..., whole:])], -1)
    total = orders.lane_reduce(weights[..., :whole], lanes, final) if whole else np.zeros(shifted.shape[:-1], F32)
    for i in range(whole, shifted.shape[-1]):
        total = total + weights[..., i]
    return weights, total[..., None]


# -- backward -------------------------------------------------------------------------------------------------------

SCALES = {
    "fused": "the scale times a product, fused with the sum",
    "rounded": "the scale times a product, then added",
    "second": "the second matrix is multiplied by the scale first",
}


def _backward(call: Call) -> Iterator[Model]:
    if _has_mask(call) or argument(call, 6, "dropout_p", 0.0):
        return
    names = ("grad", "query", "key", "value", "out", "logsumexp")
    attention = _Attention(call, names, 7)
    exponentials = with_libm({"exp by SLEEF (1.0 ulp)": exp_sleef}, "exp")
    choices = product(_orders(min(attention.keys, KEY_BLOCK)), exponentials.items(), REDUCTIONS, (False, True), SCALES)
    for order, (name, exp), reduction, fused, scale in choices:
        yield model(
            lambda o=order, e=exp, r=reduction, f=fused, s=scale: _backward_outputs(attention, o, e, r, f, s),
            attention.part,
            function=name,
            order=REDUCTIONS[reduction],
            sums=f"{'fused' if fused else 'rounded'} products of a row",
            products=order.words(),
            multiply_add=fusion_words(order.fused),
            scale=SCALES[scale],
        )


def _backward_outputs(
    attention: _Attention, order: Order, exp: Function, reduction: tuple[int, str], fused: bool, scale: str
) -> list[Array]:
    grad, query, key, value, out, logsumexp = attention.values.values()
    grad_query, grad_key, grad_value = (np.zeros_like(tensor) for tensor in (query, key, value))
    row_sums = orders.lane_products(grad, out, reduction[0], fused, reduction[1])[..., None]

    def scaled(a: Array, b: Array) -> Array:
        if scale == "second":
            return _multiply(a, (b * attention.scale).astype(F32), order)
        return (_multiply(a, b, order) * attention.scale).astype(F32)

    def added(total: Array, a: Array, b: Array) -> Array:
        if scale != "fused":
            return total + scaled(a, b)
        product = _multiply(a, b, order)
        return multiply_add(np.broadcast_to(attention.scale, product.shape), product, total, True)

    def weights_of(rows: slice, block: slice) -> Array:
        scores = scaled(query[:, :, rows], _transposed(key[:, :, block]))
        weights = exp((scores - logsumexp[:, :, rows, None]).astype(F32))
        return np.where(attention.hidden(rows, block), F32(0), weights)

    for rows, columns in attention.blocks():
        g, q = grad[:, :, rows], query[:, :, rows]
        for block in columns:
            at = (rows.start, block.start)
            weights = attention.kept(partial(weights_of, rows, block), order, "weights", exp, scale == "second", *at)
            grad_value[:, :, block] += attention.multiply(_transposed(weights), g, order, "values", exp, scale == "second", *at)
            through = attention.multiply(g, _transposed(value[:, :, block]), order, "through", *at)
            through = (weights * (through - row_sums[:, :, rows])).astype(F32)
            grad_query[:, :, rows] = added(grad_query[:, :, rows], through, key[:, :, block])
            grad_key[:, :, block] = added(grad_key[:, :, block], _transposed(through), q)
    return [grad_query, grad_key, grad_value] if attention.part is None else [grad_query[:, :, : attention.limit]]


FAMILIES: dict[str, Family] = {
    "_scaled_dot_product_flash_attention_for_cpu": _forward,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _backward,
}
