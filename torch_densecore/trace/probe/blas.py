"""In which order products are added, by (m, n, k, layout), and the rule table that the device follows."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from ..explain import orders
from . import trees
from .linear import product_orders
from .rules import Sizes, rules_of
from .values import small_values

SIDES = (1, 2, 3, 4, 8, 16, 33, 64)
DEPTHS = (2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 100, 193, 385, 512)
QUICK_SIDES, QUICK_DEPTHS = (1, 2, 4, 16, 33), (2, 5, 17, 64, 300, 385)
LARGE_SIDES, LARGE_DEPTHS = (128, 320), (64, 385, 1000)  # few, since a large product is slow to ask
DEEP = (769, 1500, 3072)
EDGE_DEPTHS = (5, 17, 385)  # at which the sizes where the kernel changes are narrowed down
CHAIN = "one chain"
ROUNDED = ", rounded products"  # ends the name of an order whose multiply-adds are not fused
UNKNOWN = "unknown"
MAX_RULES = 64
ROUNDS, MANY, CANDIDATES = 4, 24, 8  # of making rules; shapes that are probed anew for one; orders that are tried for one
MIN_PRODUCTS = 8  # that a rule for gemm must have given

Order = dict[str, set[str]]  # "first": the orders that fit the first element, and other places where they differ from it


@dataclass(frozen=True)
class Shape:
    """A request as BLAS sees it (column major): C (m, n) = op(A) (m, k) * op(B) (k, n)."""

    routine: str
    trans: str  # of A, then of B for gemm
    m: int
    n: int
    k: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.m, self.n, self.k)


def shapes(sides: Iterable[int] = SIDES, depths: Iterable[int] = DEPTHS) -> Iterator[Shape]:
    """A grid: small sides and depths, where libraries change kernels."""
    sides = tuple(sides)
    for k in depths:
        yield Shape("dot", "*", 1, 1, k)
        for m in sides:
            if m > 1:
                yield Shape("gemv", "N", m, 1, k)
                yield Shape("gemv", "T", m, 1, k)
        for trans in ("NN", "TN", "NT"):
            for m in sides:
                for n in sides:
                    yield Shape("gemm", trans, m, n, k)


def large_shapes() -> Iterator[Shape]:
    for trans in ("NN", "TN", "NT"):
        for m, n in ((16, 320), (320, 16), (128, 128), (320, 320), (320, 64)):
            for k in LARGE_DEPTHS:
                yield Shape("gemm", trans, m, n, k)
        for k in DEEP:
            yield Shape("gemm", trans, 33, 64, k)


def _spread(grid: list[Shape]) -> list[Shape]:
    """The grid in an order in which any beginning covers all of it evenly."""
    count = len(grid)
    stride = next(step for step in range(count * 5 // 8, count + 1) if math.gcd(step, count) == 1)
    return [grid[i * stride % count] for i in range(count)]


class Probe:
    """Asks torch's mm, mv and dot; candidates are those of `linear.product_orders` and one chain."""

    def __init__(self) -> None:
        self.candidates: dict[str, trees.Sums] = {CHAIN: orders.sequential, **{name: sums for name, _, sums in product_orders()}}
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


def probe(seconds: float = 60.0, *, quick: bool = False) -> dict[str, Any]:
    """The grid's answers and the rule table made of them. Stops at `seconds` and says how far it came.

    quick: a small grid, for which the table then says that it holds.
    """
    asker, begin = Probe(), time.monotonic()
    wanted = list(shapes(QUICK_SIDES, QUICK_DEPTHS)) if quick else [*_spread(list(shapes())), *large_shapes()]
    found: dict[Shape, Order] = {}

    def ask(more: Iterable[Shape]) -> None:
        for shape in more:
            if shape not in found and time.monotonic() - begin < seconds:
                found[shape] = asker.order(shape)

    ask(wanted)
    complete = len(found) == len(wanted)
    narrow(found, ask)
    return {
        "grid": [_entry(shape, answer) for shape, answer in found.items()],
        "probed": f"{len(found)} shapes" if complete else f"{len(found)} of {len(wanted)} shapes, for want of time",
        "table": table(found, ask),
    }


def narrow(found: dict[Shape, Order], ask: Callable[[list[Shape]], None]) -> None:
    """Narrows down the sides at which the order changes: asks between two neighbours that differ until they are adjacent."""
    for trans in ("NN", "TN", "NT"):
        for along_m in (True, False):
            sides = sorted({s.m for s in found if s.routine == "gemm" and s.m <= max(SIDES)})
            others = sides
            pairs = list(zip(sides, sides[1:], strict=False))
            while pairs:
                low, high = pairs.pop()
                if high - low < 2 or _same(found, trans, along_m, low, high, others):
                    continue
                middle = (low + high) // 2
                ask([_gemm(trans, along_m, middle, other, k) for other in others for k in EDGE_DEPTHS])
                pairs += [(low, middle), (middle, high)]


def _gemm(trans: str, along_m: bool, side: int, other: int, k: int) -> Shape:
    return Shape("gemm", trans, *((side, other) if along_m else (other, side)), k)


def _same(found: dict[Shape, Order], trans: str, along_m: bool, low: int, high: int, others: list[int]) -> bool:
    for other in others:
        for k in EDGE_DEPTHS:
            answers = [found.get(_gemm(trans, along_m, side, other, k)) for side in (low, high)]
            if None not in answers and not answers[0]["first"] & answers[1]["first"]:
                return False
    return True


def _entry(shape: Shape, answer: dict[str, set[str]]) -> list[Any]:
    """[routine, trans, m, n, k, {place: simplest name}]."""
    places = {place: min(names, key=simplest_key) for place, names in answer.items()}
    return [shape.routine, shape.trans, shape.m, shape.n, shape.k, places]


def table(found: dict[Shape, Order], ask: Callable[[Iterable[Shape]], None]) -> dict[str, Any] | None:
    """A BLAS model as profiles hold it: orders, and rules that fit every probed shape and random products of other sizes.

    None where no order of a matrix product is known.

    Where a rule misses a bit of such a product its shape is probed too, and the rules are made anew.
    """
    gemm = [shape for shape in found if shape.routine == "gemm"]
    if not gemm:
        return None
    side, depth = max(max(shape.m, shape.n) for shape in gemm), max(shape.k for shape in gemm)
    rules: list[Rule] = []
    right = cache(gives_the_bits)  # of this machine
    for routine, trans in (("gemm", "N"), ("gemm", "T"), ("gemv", "N"), ("gemv", "T"), ("dot", "*")):
        for _ in range(ROUNDS):
            own = _rules(found, routine, trans)
            missed = _verify(own, right, side, depth)
            if not missed:
                break
            ask(missed)
        rules += own
    written = [rule.written() for rule in _the_most_important(rules)]
    if not any(rule["routine"] == "gemm" and rule["order"] != UNKNOWN for rule in written):
        return None
    used = {rule[name] for rule in written for name in ("order", "odd_last_column") if name in rule} - {UNKNOWN}
    return {
        "name": "probed", "about": "written by densecore probe", "addend": addend(), "largest_side": side, "largest_depth": depth,
        "orders": {name: order_of(name) for name in sorted(used)}, "rules": written,
    }  # fmt: skip


def _rules(found: dict[Shape, Order], routine: str, trans: str) -> list[Rule]:
    group = [shape for shape in found if shape.routine == routine and shape.trans[0] == trans]
    seen = frozenset(name for shape in group if shape.n > 1 for name in found[shape]["first"] if order_of(name) is not None)
    fits: dict[Sizes, frozenset[tuple[str, str]]] = {}
    for shape in group:  # whatever the second matrix
        names = _names(shape, found[shape], seen)
        fits[shape.sizes] = fits.get(shape.sizes, names) & names
    return [Rule(routine, trans, each.least, each.count, _sorted(each.orders)) for each in rules_of(fits)]


@dataclass
class Rule:
    """Requests of one routine from some sizes on. candidates: (order, order of an odd last column), the simplest first."""

    routine: str
    trans: str
    least: dict[str, int]
    shapes: int
    candidates: list[tuple[str, str]]
    products: int = 0

    def covers(self, shape: Shape) -> bool:
        sizes = {"product": shape.sizes.product, "m": shape.m, "n": shape.n, "k": shape.k}
        fits = all(sizes[name] >= size for name, size in self.least.items())
        return fits and self.routine == shape.routine and self.trans == shape.trans[0]

    def known(self) -> bool:
        return bool(self.candidates) and (self.routine != "gemm" or self.products >= MIN_PRODUCTS)

    def written(self) -> dict[str, Any]:
        """As profiles hold it."""
        side = {} if self.routine == "dot" else {"transa" if self.routine == "gemm" else "trans": self.trans}
        rule = {"routine": self.routine, **side, **{f"minimum_{name}": size for name, size in self.least.items() if size > 1}}
        tried = f"probe: {self.shapes} shapes, {self.products} random products"
        if not self.known():
            return {**rule, "order": UNKNOWN, "source": f"{tried}; no order of those that have a name was seen in all of them"}
        order, last = self.candidates[0]
        return {**rule, "order": order, **({} if order == last else {"odd_last_column": last}), "source": tried}


def _sorted(orders_found: frozenset[tuple[str, str]] | None) -> list[tuple[str, str]]:
    return sorted(orders_found or (), key=lambda pair: (pair[0] != pair[1], *map(simplest_key, pair)))


def _verify(rules: list[Rule], right: Callable[[tuple[str, str], Shape], bool], side: int, depth: int) -> list[Shape]:
    """Leaves each rule the candidates that give every bit of random products, most of them of sizes that were not probed.

    Returns some of the shapes at which the best candidate of a rule fails, if they are less than half; the rule is then unknown.
    """
    asked: list[Shape] = []
    missed = {i: {pair: list[Shape]() for pair in rule.candidates[:CANDIDATES]} for i, rule in enumerate(rules)}
    for shape in _other_shapes(side, depth):
        at = next((i for i, rule in enumerate(rules) if rule.covers(shape)), None)
        if at is None:
            continue
        rules[at].products += 1
        for pair, shapes_missed in missed[at].items():
            if not right(pair, shape):
                shapes_missed.append(shape)
    for rule, failures in zip(rules, missed.values(), strict=True):
        rule.candidates = [pair for pair, shapes_missed in failures.items() if not shapes_missed]
    for rule, failures in zip(rules, missed.values(), strict=True):
        fewest = min(failures.values(), key=len, default=[])
        if 2 * len(fewest) < rule.products:
            asked += fewest[:: len(fewest) // MANY + 1]
    return asked


def _the_most_important(rules: list[Rule]) -> list[Rule]:
    """As many rules as a profile holds. The first of a kind cover the most shapes; what the last ones cover becomes unknown."""
    kept = _without_last_unknown(rules)
    while len(kept) > MAX_RULES:
        next(rule for rule in reversed(kept) if rule.known()).candidates = []
        kept = _without_last_unknown(kept)
    return kept


def _without_last_unknown(rules: list[Rule]) -> list[Rule]:
    """Unknown rules are only needed before known ones of their kind: a request without a rule is unknown."""
    kept: list[Rule] = []
    for rule in reversed(rules):
        if rule.known() or any((rule.routine, rule.trans) == (later.routine, later.trans) for later in kept):
            kept.insert(0, rule)
    return kept


def _other_shapes(side: int, depth: int) -> Iterator[Shape]:
    sides = [size for size in (1, 2, 3, 5, 7, 9, 11, 12, 13, 15, 17, 24, 40, 65, 130) if size <= side]
    depths = [size for size in (2, 3, 6, 11, 31, 128, 191, 192, 195, 301, 384, 700) if size <= depth]
    for trans in ("NN", "TN", "NT"):
        for i, m in enumerate(sides):
            for j, n in enumerate(sides):
                for k in depths[(i + j) % 5 :: 5]:
                    yield Shape("gemm", trans, m, n, k)


def gives_the_bits(pair: tuple[str, str], shape: Shape) -> bool:
    """Whether an order (and that of an odd last column) gives torch's result on values that are not special."""
    a, b = small_values(shape.m, shape.k), small_values(shape.n, shape.k).flip(0) * 0.75
    second = a.t() if shape.trans[0] == "T" else a.t().contiguous()
    first = b if shape.trans[1] == "N" else b.t().contiguous().t()
    wanted = torch.mm(first, second).t().numpy()
    even = shape.n - shape.n % 2
    return all(
        np.array_equal(product(order_of(name), a.numpy(), b.numpy()[part]), wanted[:, part])
        for name, part in zip(pair, (np.s_[:even], np.s_[even:]), strict=True)
    )


def order_in(model: dict[str, Any], shape: Shape) -> dict[str, Any] | None:
    """The order of a request in a table; None where it is unknown."""
    for rule in model["rules"]:
        least = {name.removeprefix("minimum_"): size for name, size in rule.items() if name.startswith("minimum_")}
        if Rule(rule["routine"], rule.get("transa", rule.get("trans", "*")), least, 0, []).covers(shape):
            return model["orders"].get(rule["order"])
    return None


def product(order: dict[str, Any], a: np.ndarray, b: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """All dot products of the rows of a and of b in an order; the blocks of k are added to `start`."""
    join = order["lane_join"]
    chosen = {name: order[name] for name in ("lanes", "accumulators", "block", "halves") if name in order}
    fused = order.get("products") != "rounded"
    final = "order" if join == "in_order" else join
    return orders.dot(a[:, None], b[None], **chosen, fused=fused, final=final, start=start, continues=False)


def _names(shape: Shape, answer: Order, seen: frozenset[str]) -> frozenset[tuple[str, str]]:
    """(order, order of an odd last column) that fit a shape; none if places differ in another way or the tree has no name.

    Where the last column is the only one the order of the others may be any that was seen elsewhere.
    """
    first = {name for name in answer["first"] if order_of(name) is not None}
    last = {name for name in answer.get("last column", ()) if order_of(name) is not None}
    if shape.n == 1 and shape.routine == "gemm" and set(answer) == {"first"}:
        return frozenset((name, last) for name in seen | first for last in first)
    if set(answer) == {"first"}:
        return frozenset((name, name) for name in first)
    if set(answer) == {"first", "last column"} and shape.n % 2:
        return frozenset((name, other) for name in first for other in last)
    return frozenset()


def simplest_key(name: str) -> tuple:
    return (not name.startswith(CHAIN), "turn" not in name, len(name), name)


@cache
def order_of(name: str) -> dict[str, Any] | None:
    """An order as profiles hold it, of a name of `linear.product_orders`; None for one that is not among them."""
    plain = name.removesuffix(ROUNDED)
    chain = {"lanes": 1, "accumulators": 1, "lane_join": "adjacent"}
    fields = {CHAIN: chain, **{known: fields for known, fields, _ in product_orders()}}.get(plain)
    if fields is None:
        return None
    word = "rounded" if name != plain else "fused"
    return {**fields, "tail": word, **({"products": word} if word == "rounded" else {})}


def addend() -> str:
    """Whether addmm adds the products to its matrix ("first") or the matrix to the products ("last"), with k in several blocks."""
    for m, k, n in ((33, 385, 48), (33, 800, 48)):
        left, right, start = small_values(m, k), small_values(k, n), small_values(m, n) * 8
        total = torch.addmm(start, left, right)
        if not torch.equal(total, start + left.mm(right)):
            return "first"
    return "last"
