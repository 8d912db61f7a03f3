"""Rules from probed shapes: few thresholds on m, n, k or their product, each of which fits every shape that it covers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
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

    while left.any():
        best, best_rank = None, (0, 0)
        for least in _thresholds({name: values[left] for name, values in sizes.items()}):
            covered = left & np.all([sizes[name] >= size for name, size in least.items()], axis=0)
            rank = int(covered.sum()), -len(least)
            if rank > best_rank:
                orders = common(tuple(np.unique(kind[covered]).tolist()))
                if orders is None or orders:
                    best, best_rank = (Found(least, orders, rank[0]), covered), rank
        yield best[0]
        left &= ~best[1]


def _thresholds(sizes: dict[str, np.ndarray]) -> Iterator[dict[str, int]]:
    for size in np.unique(sizes["product"]).tolist():
        yield {"product": size}
    for m, n, k in product(*(np.unique(sizes[name]).tolist() for name in ("m", "n", "k"))):
        yield {"m": m, "n": n, "k": k}
