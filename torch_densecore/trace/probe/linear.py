"""Operators that are sums of products, each as a function from rows of summands to their sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..explain import orders
from . import trees

SIZES = (2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 100, 129, 256, 385, 1000)
TREE_LIMIT = 33  # elements up to which an order without a name is written as a tree
LANES = (4, 8, 16, 32)
OUTER_COLUMNS = (1, 3, 4, 8, 16, 31, 32, 64)


def _rows(function: Callable[[torch.Tensor], torch.Tensor]) -> trees.Sums:
    """A torch function of rows, with numpy at both ends."""
    return lambda x: function(torch.from_numpy(x)).detach().float().numpy()


def _each(function: Callable[[torch.Tensor], torch.Tensor]) -> trees.Sums:
    """A torch function of one row."""

    def sums(x: np.ndarray) -> np.ndarray:
        return np.array([float(function(row).reshape(-1)[0]) for row in torch.from_numpy(x)], np.float32)

    return sums


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def operators() -> dict[str, trees.Sums]:
    """name -> sums of rows (p, n). Rows go in together where the operator treats them independently."""
    zero = torch.zeros(1)
    return {
        "sum (rows)": _rows(lambda x: x.sum(-1)),
        "sum (one row)": _each(lambda x: x.sum()),
        "sum (float64)": _rows(lambda x: x.double().sum(-1)),
        "sum (bfloat16)": _rows(lambda x: x.bfloat16().sum(-1, dtype=torch.float32)),
        "nansum": _rows(lambda x: x.nansum(-1)),
        "mean": _rows(lambda x: x.mean(-1) * x.shape[-1]),
        "cumsum": _rows(lambda x: x.cumsum(-1)[:, -1]),
        "trace": _each(lambda x: torch.diag(x).trace()),
        "dot": _each(lambda x: x.dot(_ones(x.numel()))),
        "mv": _each(lambda x: x[None] @ _ones(x.numel())),
        "mv (transposed)": _each(lambda x: x[:, None].t() @ _ones(x.numel())),
        "linear": _each(lambda x: F.linear(x[None], _ones(1, x.numel()))),
        "linear with bias": _each(lambda x: F.linear(x[None], _ones(1, x.numel()), zero)),
        "einsum": _each(lambda x: torch.einsum("i,i->", x, _ones(x.numel()))),
        "tensordot": _each(lambda x: torch.tensordot(x, _ones(x.numel()), 1)),
        "matmul 8 x k x 8": _each(lambda x: x.expand(8, -1) @ _ones(x.numel(), 8)),
        "bmm 2 x 8 x k x 8": _each(lambda x: torch.bmm(x.expand(2, 8, -1).contiguous(), _ones(2, x.numel(), 8))),
        "baddbmm": _each(lambda x: torch.baddbmm(zero, x.expand(2, 8, -1).contiguous(), _ones(2, x.numel(), 8))),
        "addmm": _each(lambda x: torch.addmm(zero, x.expand(8, -1).contiguous(), _ones(x.numel(), 8))),
        "addmv": _each(lambda x: torch.addmv(zero, x.expand(4, -1).contiguous(), _ones(x.numel()))),
        "addbmm": _each(lambda x: torch.addbmm(torch.zeros(1, 1), x[:, None, None], _ones(x.numel(), 1, 1))),
        "conv1d": _each(lambda x: F.conv1d(x[None, None], _ones(1, 1, x.numel()))),
        "conv1d (channels)": _each(lambda x: F.conv1d(x[None, :, None], _ones(1, x.numel(), 1))),
        "conv2d": _each(lambda x: F.conv2d(x[None, :, None, None], _ones(1, x.numel(), 1, 1))),
        "avg_pool1d": _each(lambda x: F.avg_pool1d(x[None, None], x.numel()) * x.numel()),
        "adaptive_avg_pool1d": _each(lambda x: F.adaptive_avg_pool1d(x[None, None], 1) * x.numel()),
        "index_add": _each(lambda x: zero.index_add(0, torch.zeros(x.numel(), dtype=torch.long), x)),
        "scatter_add": _each(lambda x: zero.scatter_add(0, torch.zeros(x.numel(), dtype=torch.long), x)),
        "embedding_bag": _each(
            lambda x: F.embedding_bag(torch.arange(x.numel())[None], x[:, None].contiguous(), mode="sum")
        ),
        "embedding (gradient)": _each(
            lambda x: torch.ops.aten.embedding_dense_backward(
                x[:, None].contiguous(), torch.zeros(x.numel(), dtype=torch.long), 1, -1, False
            )
        ),
        "bincount": _each(lambda x: torch.bincount(torch.zeros(x.numel(), dtype=torch.long), weights=x)),
        "bilinear": _each(lambda x: F.bilinear(x[None], _ones(1, 1), _ones(1, x.numel(), 1))),
    }


def known_orders() -> dict[str, trees.Sums]:
    """name -> sums of the orders that have a name."""
    known: dict[str, trees.Sums] = {
        "in order": orders.sequential,
        "in reverse order": lambda x: orders.sequential(x[:, ::-1]),
        "pairwise halves": orders.pairwise,
        "cascade": lambda x: orders.outer(np.ascontiguousarray(np.resize(x, (4 * -(-len(x) // 4), x.shape[1])).T), 1)[
            : len(x)
        ],
        "cascade, interleaved by 4": lambda x: orders.cascade(x, x.shape[1] + 1),
    }
    for lanes in LANES:
        known[f"cascade in {lanes} lanes"] = lambda x, n=lanes: orders.cascade(x, n)
        for final in ("halves", "adjacent", "order"):
            known[f"{lanes} lanes, {final}"] = lambda x, n=lanes, f=final: orders.lane_reduce(x, n, f)
    return known | {name: sums for name, _, sums in product_orders()}


def product_orders() -> Iterator[tuple[str, dict[str, Any], trees.Sums]]:
    """Orders of BLAS kernels: the name under which a probe's table lists them, their fields in a profile, their sums."""
    for block in (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768):
        for halves in (False, True):
            name = f"chain in blocks of {block}" + (f", of k / 2 below {2 * block}" if halves else "")
            yield _order(name, lanes=1, accumulators=1, block=block, halves=halves)
    for accumulators in (2, 4, 8):
        yield _order(f"{accumulators} chains in turn", lanes=1, accumulators=accumulators)
    for lanes in (4, 8, 16):
        for accumulators in (1, 2, 4, 8):
            for join, word in (("adjacent", "adjacent"), ("halves", "halves"), ("in_order", "order")):
                name = f"{lanes} lanes, {accumulators} accumulators, lanes added {word}"
                yield _order(name, lanes=lanes, accumulators=accumulators, lane_join=join)


def _order(name: str, lane_join: str = "adjacent", **fields: Any) -> tuple[str, dict[str, Any], trees.Sums]:
    final = "order" if lane_join == "in_order" else lane_join

    def sums(x: np.ndarray) -> np.ndarray:
        one = np.ones((1, x.shape[1]), np.float32)
        return orders.dot(x, one, fused=False, final=final, **fields)

    return name, {**fields, "lane_join": lane_join}, sums


class OrderNames:
    """Names of trees, worked out once for every size."""

    def __init__(self) -> None:
        self._orders = known_orders()
        self._by_size: dict[int, dict[str, str]] = {}

    def of(self, found: np.ndarray, n: int) -> str:
        """The name of the order with these subtree sizes; "" when none is known."""
        return self.table(n).get(trees.signature_of(found), "")

    def table(self, n: int) -> dict[str, str]:
        """signature -> name; of orders that are the same tree at this size the first (simplest) one."""
        if n not in self._by_size:
            names: dict[str, str] = {}
            for name, sums in self._orders.items():
                names.setdefault(trees.signature(sums, n), name)
            self._by_size[n] = names
        return self._by_size[n]


def probe_sums(names: OrderNames, sizes: tuple[int, ...] = SIZES) -> dict[str, dict[str, str]]:
    """{operator: {size: order}}: the name of the order, or its tree where it has no name (its signature above TREE_LIMIT)."""
    found: dict[str, dict[str, str]] = {}
    for operator, sums in operators().items():
        found[operator] = {}
        for n in sizes:
            try:
                found[operator][str(n)] = describe(sums, n, names)
            except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
                found[operator] = {"error": str(error).splitlines()[0][:120]}
                break
    return found


def describe(sums: trees.Sums, n: int, names: OrderNames) -> str:
    """Name, tree or signature of an operator's order at size n."""
    found = trees.sizes(sums, n, trees.pairs_of(n))
    if (found < 0).any():
        return "not a sum in this precision"
    return names.of(found, n) or (
        f"tree {trees.tree(sums, n)}" if n <= TREE_LIMIT else f"signature {trees.signature_of(found)}"
    )


def probe_outer_sums(names: OrderNames) -> dict[str, str]:
    """Order of `x.sum(0)` by number of columns, for the first and the last column."""
    found = {}
    for columns in OUTER_COLUMNS:
        for place in sorted({0, columns - 1}):
            sums = _each(lambda x, c=columns, p=place: x[:, None].expand(-1, c).contiguous().sum(0)[p])
            found[f"{columns} columns, column {place}"] = describe(sums, 100, names)
    return found


def probe_chunks(length: int = 1 << 17) -> list[int]:
    """Where `sum` of a long row is cut for threads: positions at which a new partial sum begins."""
    sums = _each(lambda x: x.sum())
    cuts, begin = [], 0
    while begin < length - 1:
        whole = _size(sums, length, begin, length - 1)
        low, high = begin + 1, length - 1  # the first position whose subtree with `begin` is as large as the last's
        while low < high:
            middle = (low + high) // 2
            if _size(sums, length, begin, middle) >= whole:
                high = middle
            else:
                low = middle + 1
        if _size(sums, length, begin, begin + 1) >= whole or low in cuts:
            break
        cuts.append(low)
        begin = low
        if len(cuts) > 64:
            break
    return cuts


def _size(sums: trees.Sums, n: int, i: int, j: int) -> int:
    return int(trees.sizes(sums, n, [(i, j)])[0])
