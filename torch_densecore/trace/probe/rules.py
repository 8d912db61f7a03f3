"""Rules from probed shapes: few thresholds on m, n, k or their product, each of which fits every shape that it covers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

SIZES = ("product", "m", "n", "k")
Fit = frozenset[Hashable]


class Sizes(NamedTuple):
    m: int
    n: int
    k: int

    @property
    def product(self) -> int:
        return self.m * self.n * self.k


@dataclass(frozen=True)
class Found:
    """Shapes with at least these sizes that no earlier rule covers. orders: what fits all of them; None: nothing does."""

    least: dict[str, int]
    orders: Fit | None
    count: int


def rules_of(fits: Mapping[Sizes, Fit]) -> Iterator[Found]:
    """Covers all shapes, given what fits each: every time by the threshold that settles the most of those that are left.

    Shapes that nothing fits are only put together with their like.
    """
    kinds = list(dict.fromkeys(fits.values()))
    kind = np.array([kinds.index(fit) for fit in fits.values()])
    sizes = {name: np.array([getattr(shape, name) for shape in fits]) for name in SIZES}
    left = np.ones(len(kind), bool)

    @cache
    def common(present: tuple[int, ...]) -> Fit | None:
        """What fits all of some kinds of shapes: None if nothing fits any of them, the empty set if they differ."""
        some = [kinds[i] for i in present]
        if not any(some):
            return None
        return frozenset.intersection(*some) if all(some) else frozenset()

    def orders(covered: np.ndarray) -> Fit | None:
        return common(tuple(np.unique(kind[covered]).tolist()))

    def settles(covered: np.ndarray) -> bool:
        found = orders(covered)
        return found is None or bool(found)

    while left.any():
        *_, (least, covered) = _thresholds(sizes, left, settles)
        yield Found(least, orders(covered), int(covered.sum()))
        left &= ~covered


def _thresholds(
    sizes: Mapping[str, np.ndarray], left: np.ndarray, settles: Callable[[np.ndarray], bool]
) -> Iterator[tuple[dict[str, int], np.ndarray]]:
    """Thresholds that settle all they cover, with what they cover: each covers more than the one before.

    Raising a threshold that settles gives one that does, so of a rising series the first is the best.
    """
    values = {name: np.unique(of_shapes[left]).tolist() for name, of_shapes in sizes.items()}
    most = 0
    for size in values["product"]:
        covered = left & (sizes["product"] >= size)
        if settles(covered):
            most = int(covered.sum())
            yield {"product": size}, covered
            break
    for m in values["m"]:
        rows = left & (sizes["m"] >= m)
        if rows.sum() <= most:
            break
        for n in values["n"]:
            both = rows & (sizes["n"] >= n)
            if both.sum() <= most:
                break
            for k in values["k"]:
                covered = both & (sizes["k"] >= k)
                if covered.sum() <= most:
                    break
                if settles(covered):
                    most = int(covered.sum())
                    yield {"m": m, "n": n, "k": k}, covered
                    break
