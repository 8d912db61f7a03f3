"""In which order products are added, by (m, n, k, layout), and the rule table that the device follows."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..explain import orders
from . import trees
from .linear import product_orders

SIDES = (1, 2, 3, 4, 8, 16, 33, 64)
DEPTHS = (2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 100, 193, 385, 512)
CHAIN = "one chain"
ROUNDED = ", rounded products"  # ends the name of an order whose multiply-adds are not fused
REPRESENTABLE = re.compile(r"(?:(\d+) lanes, (\d+) accumulators?, lanes added adjacent|(\d+) chains in turn)$")


@dataclass(frozen=True)
class Shape:
    """A request as BLAS sees it (column major): C (m, n) = op(A) (m, k) * op(B) (k, n)."""

    routine: str
    trans: str  # of A, then of B for gemm
    m: int
    n: int
    k: int

    @property
    def product(self) -> int:
        return self.m * self.n * self.k


def shapes() -> Iterator[Shape]:
    """The grid: small sides and depths, where libraries change kernels, first."""
    for k in DEPTHS:
        yield Shape("dot", "*", 1, 1, k)
        for m in SIDES[1:]:
            yield Shape("gemv", "N", m, 1, k)
            yield Shape("gemv", "T", m, 1, k)
        for trans in ("NN", "TN", "NT"):
            for m in SIDES:
                for n in SIDES:
                    yield Shape("gemm", trans, m, n, k)


def _spread(shapes: list[Shape]) -> list[Shape]:
    """The grid in an order in which any beginning covers all of it evenly."""
    count = len(shapes)
    stride = next(step for step in range(count * 5 // 8, count + 1) if math.gcd(step, count) == 1)
    return [shapes[i * stride % count] for i in range(count)]


class Probe:
    """Asks torch's mm, mv and dot; candidates are those of `linear.product_orders` and one chain."""

    def __init__(self) -> None:
        self.candidates: dict[str, trees.Sums] = {CHAIN: orders.sequential, **dict(product_orders())}
        self._names: dict[int, dict[str, set[str]]] = {}

    def names(self, k: int) -> dict[str, set[str]]:
        """signature -> all candidates that have it at depth k."""
        if k not in self._names:
            found: dict[str, set[str]] = defaultdict(set)
            for name, sums in self.candidates.items():
                found[trees.signature(sums, k)].add(name)
            self._names[k] = found
        return self._names[k]

    def order(self, shape: Shape) -> dict[str, set[str]]:
        """{"first": names, "last column": names}: the orders that fit the first element, and others if they differ."""
        pairs = trees.pairs_of(shape.k)
        ones = np.ones(shape.k, np.float32)
        results = np.stack([compute(shape, row, ones) for row in trees.masked(shape.k, pairs)])
        ending = "" if fused(shape) else ROUNDED
        places = {"first": (0, 0), "last row": (shape.m - 1, 0), "last column": (0, shape.n - 1)}
        found, seen = {}, set()
        for name, (i, j) in places.items():
            counts = shape.k - results[:, i, j]
            signature = trees.signature_of(np.rint(counts))
            if signature not in seen:
                seen.add(signature)
                known = self.names(shape.k).get(signature, {f"signature {signature}"})
                found[name] = {order + ending for order in known}
        return found


def compute(shape: Shape, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The (m, n) result when every row of op(A) is `row` and every column of op(B) `column`; torch is row major."""
    m, n, k = shape.m, shape.n, shape.k
    left, right = torch.from_numpy(row), torch.from_numpy(column)
    if shape.routine == "dot":
        return left.dot(right).reshape(1, 1).numpy()
    rows = left.expand(m, k).contiguous()
    if shape.routine == "gemv":
        # row-major (m, k) is column-major T; a transposed (k, m) is N
        matrix = rows if shape.trans == "T" else rows.t().contiguous().t()
        return torch.mv(matrix, right).reshape(m, 1).numpy()
    # torch's second operand is BLAS's A: stored (k, m), or (m, k) and transposed
    second = rows.t() if shape.trans[0] == "T" else rows.t().contiguous()
    first = right.expand(n, k).contiguous() if shape.trans[1] == "N" else right[:, None].expand(k, n).contiguous().t()
    return torch.mm(first, second).t().numpy()


def fused(shape: Shape) -> bool:
    """Whether a product is fused into its sum: -(1 + 2^-11) + (1 + 2^-12)^2 is then 2^-24 and not 0."""
    k = shape.k
    for at in {
        1,
        k // 2 or 1,
        k - 1,
        min(4, k - 1),
        min(16, k - 1),
    }:  # one of them shares an accumulator with element 0
        row, column = np.zeros((2, k), np.float32)
        row[0], column[0] = -(1 + 2.0**-11), 1
        row[at] = column[at] = 1 + 2.0**-12
        if compute(shape, row, column)[0, 0] == 2.0**-24:
            return True
    return False


def probe(seconds: float = 60.0) -> dict[str, Any]:
    """The grid's answers and the rule table made of them. Stops at `seconds` and says how far it came."""
    asker, begin = Probe(), time.monotonic()
    found: dict[Shape, dict[str, set[str]]] = {}
    total = 0
    for shape in _spread(list(shapes())):
        total += 1
        if time.monotonic() - begin < seconds:
            found[shape] = asker.order(shape)
    return {
        "grid": [_entry(shape, answer) for shape, answer in found.items()],
        "probed": f"{len(found)} of {total} shapes",
        "table": table(found),
    }


def _entry(shape: Shape, answer: dict[str, set[str]]) -> list[Any]:
    """[routine, trans, m, n, k, {place: simplest name}]."""
    return [
        shape.routine, shape.trans, shape.m, shape.n, shape.k, {place: simplest(names) for place, names in answer.items()}
    ]  # fmt: skip


def simplest(names: set[str]) -> str:
    """One name of several orders that are the same tree at this depth."""
    return min(names, key=lambda name: (not name.startswith(CHAIN), "turn" not in name, len(name), name))


def table(found: dict[Shape, dict[str, set[str]]]) -> dict[str, Any]:
    """A BLAS model as profiles hold it: orders and rules, each with the share of probed shapes that it fits."""
    used: dict[str, Any] = {}
    rules = []
    for routine, trans in (("gemm", "N"), ("gemm", "T"), ("gemv", "N"), ("gemv", "T"), ("dot", "*")):
        group = {s: a for s, a in found.items() if s.routine == routine and s.trans[0] == trans}
        for least, part in _regions(group):
            rule = _rule(routine, trans, least, part, used)
            if rule is not None:
                rules.append(rule)
    return {"name": "probed", "about": "written by densecore probe", "orders": used, "rules": rules}


def _regions(group: dict[Shape, Any]) -> list[tuple[int, dict[Shape, Any]]]:
    """Splits at the product m*n*k from which on one order fits every shape (there may be no such product)."""
    ordered = sorted(group, key=lambda shape: -shape.product)
    common: set[str] | None = None
    large: dict[Shape, Any] = {}
    for shape in ordered:
        names = group[shape]["first"] if len(group[shape]) == 1 else set()
        rest = names if common is None else common & names
        if not rest:
            break
        common, large[shape] = rest, group[shape]
    small = {shape: answer for shape, answer in group.items() if shape not in large}
    regions = [(min(s.product for s in large), large)] if large else []
    return regions + ([(0, small)] if small else [])


def _rule(routine: str, trans: str, least: int, part: dict[Shape, Any], used: dict[str, Any]) -> dict[str, Any] | None:
    votes = Counter(name for answer in part.values() for name in answer["first"])
    if not votes:
        return None
    best = max(votes.values())
    name = simplest({n for n, count in votes.items() if count == best})
    rule: dict[str, Any] = {"routine": routine, "order": name, "source": f"probe: fits {best} of {len(part)} shapes"}
    if least:
        rule["minimum_product"] = least
    if routine == "gemm":
        rule["transa"] = trans
        odd = Counter(n for s, a in part.items() if s.n % 2 for n in a.get("last column", ()))
        if odd:
            rule["odd_last_column"] = simplest({n for n, count in odd.items() if count == max(odd.values())})
    elif routine == "gemv":
        rule["trans"] = trans
    if best < len(part):
        rule["provisional"] = True
    for order in filter(None, (name, rule.get("odd_last_column"))):
        used[order] = order_of(order)
    return rule


def order_of(name: str) -> dict[str, Any]:
    """An order as profiles hold it; {"unsupported": name} for one that the device's table cannot express."""
    if name == CHAIN:
        return {"lanes": 1, "accumulators": 1, "tail": "fused"}
    match = REPRESENTABLE.match(name)
    if match is None:
        return {"unsupported": name}
    if match.group(3):
        return {"lanes": 1, "accumulators": int(match.group(3)), "tail": "fused"}
    return {"lanes": int(match.group(1)), "accumulators": int(match.group(2)), "tail": "fused"}
