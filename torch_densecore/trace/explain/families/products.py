"""Matrix and dot products: chains or lanes along k, blocks of k, fusion, where the added matrix and alpha come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array, fma
from ..model import LANE_NAMES, LANES, MAX_WORK, Family, Model, argument, base_of, fusion_words, model, numpy_of

BLOCKS = (32, 64, 128, 192, 256, 320, 384, 448, 512, 768, 1024)
START = {
    "last": "the added matrix comes last",
    "first": "the added matrix begins the chain",
    "block by block": "the blocks are added to the matrix one by one",
}
ALPHA = {
    "sum": "alpha times the sum",
    "fused": "alpha times the sum, fused with the added matrix",
    "second": "the second matrix is multiplied by alpha first",
    "first": "the first matrix is multiplied by alpha first",
}


@dataclass(frozen=True)
class Order:
    """How the sum over k is formed."""

    lanes: int = 1
    accumulators: int = 1
    block: int = 0
    halves: bool = False
    fused: bool = True

    def words(self) -> str:
        if self.lanes == self.accumulators == 1:
            short = f", two halves below {2 * self.block}" if self.halves else ""
            return f"one chain along k in blocks of {self.block}{short}" if self.block else "one chain along k"
        if self.lanes == 1:
            return f"{self.accumulators} chains that take turns along k"
        plural = "s" if self.accumulators > 1 else ""
        return f"dot products in {LANE_NAMES[self.lanes]}, {self.accumulators} accumulator{plural}"

    def key(self, k: int) -> tuple:
        """Equal for orders that are the same for this k: blocks longer than k are one chain."""
        return self.lanes, self.accumulators, self.fused, tuple(orders.blocks_of(k, self.block, self.halves))

    def dot(self, left: Array, right: Array, start: Array | None = None, continues: bool = True) -> Array:
        return orders.dot(
            left, right, lanes=self.lanes, accumulators=self.accumulators, block=self.block, halves=self.halves,
            fused=self.fused, start=start, continues=continues,
        )  # fmt: skip


CHAINS = (
    *(Order(fused=fused) for fused in (True, False)),
    *(Order(block=block, halves=halves) for block in BLOCKS for halves in (True, False)),
    *(Order(accumulators=n) for n in (2, 4)),
    *(Order(lanes, n, fused=fused) for lanes in LANES for n in (1, 2, 4) for fused in (True, False)),
)


class _Product:
    """The operands of a call, and the sums that several models share."""

    def __init__(self, call: Call) -> None:
        base = base_of(call)
        tensors = [numpy_of(tensor) for tensor in call.inputs]
        self.start = tensors.pop(0) if base in ("addmm", "baddbmm", "addmv") else None
        a, b = tensors
        if base in ("mv", "addmv", "dot"):
            self.left, self.right = a, b  # (m, k) . (k) or (k) . (k)
        else:
            self.left, self.right = a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :]
        self.k = a.shape[-1]
        self.part: tuple[slice, ...] | None = None
        self._done: dict[tuple, Array] = {}
        work = np.prod(call.site.outputs[0]["shape"], dtype=float) * self.k
        if work > MAX_WORK:
            self._take_part(max(1, int(MAX_WORK * a.shape[0 if a.ndim == 2 else -2] // work)))

    def _take_part(self, rows: int) -> None:
        """The first rows, of a batch those of its first matrix."""
        if self.left.ndim == 4:
            self.left, self.right = self.left[:1, :rows], self.right[:1]
            self.part = (slice(0, 1), slice(0, rows))
        else:
            self.left, self.part = self.left[:rows], (slice(0, rows),)
        if self.start is not None and self.start.ndim == self.left.ndim - 1:
            self.start = self.start[self.part]

    def plain(self, order: Order, at: str) -> Array:
        """The product with beta = alpha = 1."""
        key = (*order.key(self.k), at)
        if key not in self._done:
            if at == "last":
                self._done[key] = (self.start + order.dot(self.left, self.right)).astype(F32)
            else:
                self._done[key] = order.dot(self.left, self.right, self.start, at != "block by block")
        return self._done[key]

    def scaled(self, order: Order, alpha: Array, beta: Array, where: str) -> Array:
        """alpha * product + beta * start, the start coming last."""
        key = (*order.key(self.k), where)
        if key not in self._done:
            left = (self.left * alpha).astype(F32) if where == "first" else self.left
            right = (self.right * alpha).astype(F32) if where == "second" else self.right
            self._done[key] = order.dot(left, right)
        total, added = self._done[key], (self.start * beta).astype(F32) if beta else F32(0)
        if where == "fused":
            return fma(np.broadcast_to(alpha, total.shape), total, added)
        return (added + (total * alpha if where == "sum" else total)).astype(F32)


def _products(call: Call) -> Iterator[Model]:
    operands = _Product(call)
    if operands.start is None:
        for order in CHAINS:
            yield _model(operands, order, lambda o=order: operands.plain(o, "none"))
        return
    alpha, beta = (F32(argument(call, 3, name, 1)) for name in ("alpha", "beta"))
    if alpha == beta == 1:
        for order, at in product(CHAINS, START):
            yield _model(operands, order, lambda o=order, at=at: operands.plain(o, at), start=START[at])
        return
    for order, where in product(CHAINS, ALPHA):
        yield _model(
            operands, order, lambda o=order, w=where: operands.scaled(o, alpha, beta, w), alpha=ALPHA[where]
        )  # fmt: skip


def _model(operands: _Product, order: Order, compute: object, **traits: str) -> Model:
    words = {"order": order.words(), "multiply_add": fusion_words(order.fused)}
    return model(compute, operands.part, **words, **traits)


FAMILIES: dict[str, Family] = {
    name: _products for name in ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot")
}
