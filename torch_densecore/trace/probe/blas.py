"""In which order products are added, by (m, n, k, layout), and the rule table that the device follows."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from ..explain import orders
from . import trees
from .addend import write_addends
from .linear import product_orders
from .requests import DEPTHS, OTHER_SIDES, SIDES, Shape, compute_all, fusing_examples, large_shapes, multiply, other_shapes, shapes
from .rules import Sizes, rules_of
from .table import product
from .values import small_values

QUICK_SIDES, QUICK_DEPTHS = (1, 2, 4, 16, 33), (2, 5, 17, 64, 300, 385)
SAMPLE = np.unique([0, 5, 7, 20, 31, 32, 50, 63, 77, 100, 127, *(size - 1 for size in OTHER_SIDES)])  # rows and columns to look at
IN_SAMPLE = np.isin(np.arange(OTHER_SIDES[-1]), SAMPLE)
EDGE_DEPTHS = (5, 17, 385)  # at which the sizes where the kernel changes are narrowed down
TELLING_DEPTH = 17  # from which on lanes and accumulators are told apart
CHAIN = "one chain"
ROUNDED = ", rounded products"  # ends the name of an order whose multiply-adds are not fused
ROUNDED_TAIL = ", rounded tail"  # or only those of the elements after the last whole vector are not
UNKNOWN = "unknown"
MAX_RULES = 64
FEW = 64  # results of one random request; where it has fewer, several are asked
ROUNDS, MANY, CANDIDATES = 4, 24, 8  # of making rules; shapes that are probed anew for one; orders that are tried for one
GRID_SHARE = 0.6  # of the time; the rest is for the sizes between those of the grid
VERIFY_UNTIL = 1.4  # of the time: no more random products
# Random products that a matrix's rule must have given. With fewer it may be a corner of what has no form here (MKL on two threads
# has such), and wrong between them. Dot has one size, and fewer to ask.
MIN_PRODUCTS = 200
MIN_RESULTS = 256  # elements of random products that a rule must have given: half of them are the same in a similar order

Order = dict[str, set[str]]  # "first": the orders that fit the first element, and other places where they differ from it


def _spread(grid: list[Shape]) -> list[Shape]:
    """The grid in an order in which any beginning covers all of it evenly."""
    count = len(grid) or 1
    stride = next(step for step in range(count * 5 // 8, count + 1) if math.gcd(step, count) == 1)
    return [grid[i * stride % count] for i in range(len(grid))]


class Probe:
    """Asks torch's mm, mv and dot; candidates are those of `linear.product_orders` and one chain."""

    def __init__(self) -> None:
        self.candidates: dict[str, trees.Sums] = {CHAIN: orders.sequential, **{name: sums for name, _, sums in product_orders()}}
        self._names: dict[int, dict[str, set[str]]] = {}
        self._fusing: dict[tuple[str, int], np.ndarray] = {}

    def names(self, k: int) -> dict[str, set[str]]:
        """signature -> all candidates that have it at depth k."""
        if k not in self._names:
            found: dict[str, set[str]] = defaultdict(set)
            for name, sums in self.candidates.items():
                found[trees.signature(sums, k)].add(name)
            self._names[k] = found
        return self._names[k]

    def order(self, shape: Shape) -> Order:
        """The orders that fit the first column, and the last one if it differs. Each row of the product is masked in another way.

        If the order of the rows were not the same no order would fit all of them.
        """
        results = compute_all(shape, trees.masked(shape.k, trees.pairs_of(shape.k)), np.ones(shape.k, np.float32))
        fusing = compute_all(shape, *fusing_examples(shape.k))
        found, seen = {}, set()
        for place, column in {"first": 0, "last column": -1}.items():
            signature = trees.signature_of(np.rint(shape.k - results[:, column]))
            if (key := (signature, fusing[:, column].tobytes())) not in seen:
                seen.add(key)
                found[place] = self._fitting(signature, fusing[:, column], shape.k) or {f"signature {signature}"}
        return found

    def _fitting(self, signature: str, fusing: np.ndarray, k: int) -> set[str]:
        known = {order + ending for order in self.names(k).get(signature, ()) for ending in ("", ROUNDED, ROUNDED_TAIL)}
        return {name for name in known if order_of(name) is not None and np.array_equal(self._fuses(name, k), fusing)}

    def _fuses(self, name: str, k: int) -> np.ndarray:
        if (name, k) not in self._fusing:
            rows, column = fusing_examples(k)
            self._fusing[name, k] = product(order_of(name), rows, column[None])[:, 0]
        return self._fusing[name, k]


def probe(seconds: float = 60.0, *, quick: bool = False) -> dict[str, Any]:
    """The grid's answers and the rule table made of them. Stops at `seconds` and says how far it came.

    quick: a small grid, for which the table then says that it holds.
    """
    asker, begin = Probe(), time.monotonic()
    wanted = list(shapes(QUICK_SIDES, QUICK_DEPTHS)) if quick else [*_spread(list(shapes())), *large_shapes()]
    found: dict[Shape, Order] = {}

    def ask(more: Iterable[Shape], until: float = seconds) -> None:
        for shape in more:
            if shape not in found and time.monotonic() - begin < until:
                found[shape] = asker.order(shape)

    def time_left() -> float:
        return VERIFY_UNTIL * seconds - (time.monotonic() - begin)

    ask(wanted, GRID_SHARE * seconds)
    complete = len(found) == len(wanted)
    narrow(found, ask)
    return {
        "grid": [_entry(shape, answer) for shape, answer in found.items()],
        "probed": f"{len(found)} shapes" if complete else f"{len(found)} shapes, for want of time not all of the grid",
        "table": table(found, ask, time_left),
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


def table(
    found: dict[Shape, Order], ask: Callable[[Iterable[Shape]], None], time_left: Callable[[], float] = lambda: math.inf
) -> dict[str, Any] | None:
    """A BLAS model as profiles hold it: orders, and rules that fit every probed shape and random products of other sizes.

    None where no order of a matrix product is known.

    Where a rule misses a bit of such a product its shape is probed too, and the rules are made anew.
    """
    gemm = [shape for shape in found if shape.routine == "gemm"]
    if not gemm:
        return None
    side, depth = max(max(shape.m, shape.n) for shape in gemm), max(shape.k for shape in gemm)
    rules: list[Rule] = []
    kinds = (("dot", "*"), ("gemv", "N"), ("gemv", "T"), ("gemm", "N"), ("gemm", "T"))  # the fewest products first
    for at, (routine, trans) in enumerate(kinds):
        products = Products(time.monotonic() + time_left() / (len(kinds) - at))
        for _ in range(ROUNDS):
            own = _rules(found, routine, trans)
            missed = _verify(own, products, side, depth)
            if not missed:
                break
            ask(missed)
        rules += own
    written = [rule.written() for rule in _the_most_important(rules)]
    if not any(rule["routine"] == "gemm" and rule["order"] != UNKNOWN for rule in written):
        return None
    used = {rule[name] for rule in written for name in ("order", "odd_last_column") if name in rule} - {UNKNOWN}
    model = {
        "name": "probed", "about": "written by densecore probe", "largest_side": side, "largest_depth": depth,
        "orders": {name: order_of(name) for name in sorted(used)}, "rules": written,
    }  # fmt: skip
    write_addends(model)
    return model


def _rules(found: dict[Shape, Order], routine: str, trans: str) -> list[Rule]:
    group = [shape for shape in found if shape.routine == routine and shape.trans[0] == trans]
    seen = frozenset(name for shape in group if shape.n > 1 for name in found[shape]["first"] if order_of(name) is not None)
    deep = [found[shape].get("last column", ()) for shape in group if shape.k >= TELLING_DEPTH]
    seen_last = frozenset(name for names in deep for name in names if order_of(name) is not None)
    fits: dict[Sizes, frozenset[tuple[str, str]]] = {}
    for shape in group:  # whatever the second matrix
        names = _names(shape, found[shape], seen, seen_last)
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
    results: int = 0
    unasked: int = 0  # random products for which there was no time

    def covers(self, shape: Shape) -> bool:
        return shape.reaches(self.least) and self.routine == shape.routine and self.trans == shape.trans[0]

    def known(self) -> bool:
        tried = self.products >= MIN_PRODUCTS or (self.routine == "dot" and not self.unasked)
        return bool(self.candidates) and self.results >= MIN_RESULTS and tried

    def written(self) -> dict[str, Any]:
        """As profiles hold it."""
        side = {} if self.routine == "dot" else {"transa" if self.routine == "gemm" else "trans": self.trans}
        smallest = {"k": min(DEPTHS)}  # one element has no order
        least = {name: size for name, size in self.least.items() if size > smallest.get(name, 1)}
        rule = {"routine": self.routine, **side, **{f"minimum_{name}": size for name, size in least.items()}}
        tried = f"probe: {self.shapes} shapes, {self.products} random products"
        if not self.known():
            return {**rule, "order": UNKNOWN, "source": f"{tried}; no order of those that have a name was seen in all of them"}
        order, last = self.candidates[0]
        return {**rule, "order": order, **({} if order == last else {"odd_last_column": last}), "source": tried}


def _sorted(orders_found: frozenset[tuple[str, str]] | None) -> list[tuple[str, str]]:
    return sorted(orders_found or (), key=lambda pair: (pair[0] != pair[1], *map(simplest_key, pair)))


def _verify(rules: list[Rule], products: Products, side: int, depth: int) -> list[Shape]:
    """Leaves each rule the candidates that give every bit of random products, most of them of sizes that were not probed.

    Returns some of the shapes at which the best candidate of a rule fails, if they are less than half; the rule is then unknown.
    """
    asked: list[Shape] = []
    missed = {i: {pair: list[Shape]() for pair in rule.candidates[:CANDIDATES]} for i, rule in enumerate(rules)}
    kinds = {(rule.routine, rule.trans) for rule in rules}
    for shape in _spread([each for each in other_shapes(side, depth) if (each.routine, each.trans[0]) in kinds]):
        at = next((i for i, rule in enumerate(rules) if rule.covers(shape)), None)
        if at is None:
            continue
        if not products.may_ask(shape):
            rules[at].unasked += 1
            continue
        rules[at].products += 1
        rules[at].results += len(_requests(shape)[1])
        for pair, shapes_missed in missed[at].items():
            if not products.right(pair, shape):
                shapes_missed.append(shape)
    for rule, failures in zip(rules, missed.values(), strict=True):
        rule.candidates = [pair for pair, shapes_missed in failures.items() if not shapes_missed]
    for rule, failures in zip(rules, missed.values(), strict=True):
        fewest = min(failures.values(), key=len, default=[])
        if 2 * len(fewest) < rule.products:
            asked += fewest[:: len(fewest) // MANY + 1]
    return asked


def _the_most_important(rules: list[Rule]) -> list[Rule]:
    """As many rules as a profile holds: the last ones of a kind, which cover few shapes, become unknown."""
    kept = _without_last_unknown(rules)
    while len(kept) > MAX_RULES:
        last = {(rule.routine, rule.trans): rule for rule in kept if rule.known()}
        min(last.values(), key=lambda rule: rule.shapes).candidates = []
        kept = _without_last_unknown(kept)
    return kept


def _without_last_unknown(rules: list[Rule]) -> list[Rule]:
    """Unknown rules are only needed before known ones of their kind: a request without a rule is unknown."""
    kept: list[Rule] = []
    for rule in reversed(rules):
        if rule.known() or any((rule.routine, rule.trans) == (later.routine, later.trans) for later in kept):
            kept.insert(0, rule)
    return kept


class Products:
    """Products of values that are not special, in any order: a sample of rows and columns, which holds the edges of all sizes.

    A difference between orders seldom shows in one result, so that small products are asked with several operands.
    """

    def __init__(self, until: float) -> None:
        self._until = until  # of time.monotonic()
        self._known: dict[Hashable, np.ndarray] = {}
        self._asked: dict[Shape, np.ndarray] = {}

    def may_ask(self, shape: Shape) -> bool:
        """Whether torch was asked for the shape or there is time to."""
        return shape in self._asked or time.monotonic() < self._until

    def right(self, pair: tuple[str, str], shape: Shape) -> bool:
        """Whether an order, with that of an odd last column, gives the bits of torch's products."""
        requests, at, last = _requests(shape)
        if shape not in self._asked:
            a, b = _operands(shape.k)
            results = (multiply(shape, a[rows], b[columns])[_in_sample(rows, columns)].ravel() for rows, columns in requests)
            self._asked[shape] = np.concatenate(list(results))
        wanted = self._asked[shape]
        return all(
            np.array_equal(self._in_order(name, shape.k).ravel()[at[part]], wanted[part])
            for name, part in zip(pair, (~last, last), strict=True)
        )

    def _in_order(self, name: str, k: int) -> np.ndarray:
        """The sample's products; each order is computed once, under whatever name."""
        order = order_of(name)
        blocks = tuple(orders.blocks_of(k, order.pop("block", 0), order.pop("halves", False)))
        key = k, blocks, tuple(sorted(order.items()))
        if key not in self._known:
            a, b = _operands(k)
            self._known[key] = product(order_of(name), a.numpy()[SAMPLE], b.numpy()[SAMPLE])
        return self._known[key]


@cache
def _requests(shape: Shape) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """Rows and columns of the operands of each request: several of the sample's where one has few results.

    And of all results that are compared: the place in the sample's products, and whether it is in an odd last column.
    """
    side = max(shape.m, shape.n)
    begins = range(0, len(SAMPLE) - side + 1, side)
    shifts = range(-(-FEW // (len(begins) * shape.m * shape.n))) if side <= len(SAMPLE) // 2 else ()
    some = [(SAMPLE[i : i + shape.m], np.roll(SAMPLE, shift)[i : i + shape.n]) for shift in shifts for i in begins]
    requests = some or [(np.arange(shape.m), np.arange(shape.n))]
    products = np.arange(len(SAMPLE) ** 2).reshape(len(SAMPLE), len(SAMPLE))
    at, last = [], []
    for rows, columns in requests:
        down, across = _in_sample(rows, columns)
        at.append(products[np.ix_(np.searchsorted(SAMPLE, rows[down[:, 0]]), np.searchsorted(SAMPLE, columns[across[0]]))])
        last.append(np.broadcast_to(across == shape.n - shape.n % 2, at[-1].shape))
    return requests, np.concatenate([each.ravel() for each in at]), np.concatenate([each.ravel() for each in last])


def _in_sample(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ix_(IN_SAMPLE[rows], IN_SAMPLE[columns])


@cache
def _operands(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    values = small_values(2 * OTHER_SIDES[-1], k)
    return values[: OTHER_SIDES[-1]], values[OTHER_SIDES[-1] :] * 0.75


def _names(shape: Shape, answer: Order, seen: frozenset[str], seen_last: frozenset[str]) -> frozenset[tuple[str, str]]:
    """(order, order of an odd last column) that fit a shape; none if places differ in another way or the tree has no name.

    Where the last column is the only one the order of the others may be any that was `seen` elsewhere; where their number is even
    an odd last one may be as any `seen_last`.
    """
    first = {name for name in answer["first"] if order_of(name) is not None}
    last = {name for name in answer.get("last column", ()) if order_of(name) is not None}
    if shape.n == 1 and shape.routine == "gemm" and set(answer) == {"first"}:
        return frozenset((name, last) for name in seen | first for last in first)
    if set(answer) == {"first"}:
        others = seen_last if shape.n % 2 == 0 else frozenset()
        return frozenset((name, other) for name in first for other in others | _same_tree(name, first))
    if set(answer) == {"first", "last column"} and shape.n % 2:
        return frozenset((name, other) for name in first for other in last)
    return frozenset()


def _same_tree(name: str, names: set[str]) -> set[str]:
    """Those that masks do not tell from it: the tail is fused or not."""
    return {other for other in names if other.removesuffix(ROUNDED_TAIL) == name.removesuffix(ROUNDED_TAIL)}


def simplest_key(name: str) -> tuple:
    return (not name.startswith(CHAIN), "turn" not in name, len(name), name)


def order_of(name: str) -> dict[str, Any] | None:
    """An order as profiles hold it, of a name of `linear.product_orders`; None for one that is not among them."""
    ending = next((end for end in (ROUNDED, ROUNDED_TAIL) if name.endswith(end)), "")
    fields = _orders().get(name.removesuffix(ending))
    if fields is None or (ending == ROUNDED_TAIL and fields["lanes"] == 1):  # single elements leave no tail
        return None
    products = {"products": "rounded"} if ending == ROUNDED else {}
    return {**fields, "tail": "rounded" if ending else "fused", **products}


@cache
def _orders() -> dict[str, dict[str, Any]]:
    chain = {"lanes": 1, "accumulators": 1, "lane_join": "adjacent"}
    return {CHAIN: chain, **{name: fields for name, fields, _ in product_orders()}}
