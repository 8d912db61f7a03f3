"""When beta * C is added to a product: tried for each rule of a table, on a few of the shapes that it decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..explain import orders
from ..explain.arith import F32, Array
from .requests import Shape, operands, other_shapes
from .table import covers, product, rule_in
from .values import small_values

Order = dict[str, Any]  # as profiles hold it
KINDS = ("last", "first", "chain")
UNKNOWN = "unknown"
FACTORS = ((1, 1), (0.3, 0.7), (0, 0.7))  # beta and alpha
EXAMPLES, ELEMENTS = 4, 1024  # shapes to try for a rule; results that a shape should not exceed


def write_addends(table: dict[str, Any]) -> None:
    """Puts into every rule of products with known order when the addend comes, as docs/profiles.md says."""
    side, depth = table["largest_side"], table["largest_depth"]
    decided: dict[int, list[Shape]] = {}
    for shape in other_shapes(side, depth):
        rule = rule_in(table, shape)
        if rule is not None and rule["order"] != UNKNOWN and rule["routine"] != "dot":
            decided.setdefault(table["rules"].index(rule), []).append(shape)
    for index, rule in enumerate(table["rules"]):
        if rule["order"] != UNKNOWN and rule["routine"] != "dot":
            rule["addend"] = _addend(table, rule, _examples(decided.get(index, [])))
            # one element is summed in no order, but an addend may come to it in another way than to more of them
            single = _examples([shape for shape in other_shapes(side, depth, (1,)) if covers(rule, shape)])
            if single and rule["addend"] != UNKNOWN and _addend(table, rule, single, (rule["addend"],)) == UNKNOWN:
                rule["minimum_k"] = 2


def _examples(shapes: list[Shape]) -> list[Shape]:
    """From the least deep one to the deepest."""
    small = sorted((s for s in shapes if s.m * s.n <= ELEMENTS), key=lambda s: s.k) or shapes[:1]
    return [small[i * (len(small) - 1) // (EXAMPLES - 1)] for i in range(EXAMPLES)] if small else []


def _addend(table: dict[str, Any], rule: dict[str, Any], shapes: list[Shape], kinds: tuple[str, ...] = KINDS) -> str:
    by_column = tuple(table["orders"][rule.get(name, rule["order"])] for name in ("order", "odd_last_column"))
    left = [kind for kind in kinds if kind != "chain" or all(map(_is_chain, by_column))]
    for shape in shapes:
        a, b, c = small_values(shape.m, shape.k), small_values(shape.n, shape.k).flip(0), small_values(shape.m, shape.n)
        for beta, alpha in FACTORS:
            wanted, numbers = _asked(shape, a, b, c, beta, alpha), (a.numpy(), b.numpy(), c.numpy())
            left = [kind for kind in left if np.array_equal(with_addend(kind, by_column, *numbers, beta, alpha), wanted)]
    return left[0] if left and shapes else UNKNOWN


def _is_chain(order: Order) -> bool:
    return order["lanes"] == order["accumulators"] == 1 and not order.get("block")


def _asked(shape: Shape, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, beta: float, alpha: float) -> Array:
    left, right = operands(shape, a, b)
    if shape.routine == "gemv":
        return torch.addmv(c[:, 0], left, right, beta=beta, alpha=alpha)[:, None].numpy()
    return torch.addmm(c.t(), left, right, beta=beta, alpha=alpha).t().numpy()


def with_addend(kind: str, by_column: tuple[Order, Order], a: Array, b: Array, c: Array, beta: float, alpha: float) -> Array:
    """alpha * a * (transpose of b) + beta * c. by_column: the order, and that of an odd last column (variant/gemm.cpp)."""
    addend = (F32(beta) * c).astype(F32)
    even = len(b) - len(b) % 2
    parts = [
        _sum(kind, order, a, b[part], addend[:, part] if beta else None, F32(alpha))
        for order, part in zip(by_column, (np.s_[:even], np.s_[even:]), strict=True)
    ]
    return np.concatenate(parts, 1)


def _sum(kind: str, order: Order, a: Array, b: Array, addend: Array | None, alpha: np.float32) -> Array:
    fused = order.get("products") != "rounded"
    if kind == "chain":
        return orders.dot(a[:, None], (alpha * b).astype(F32)[None], fused=fused, start=addend)
    if kind == "first":
        return product(order, (alpha * a).astype(F32), b, start=addend)
    total = product(order, a, b)
    return (alpha * total).astype(F32) if addend is None else orders.multiply_add(alpha, total, addend, fused)
