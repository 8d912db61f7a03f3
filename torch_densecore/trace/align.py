"""Pairs the operator calls of two traces, although one may have more calls or another order.

While both traces make the same call next, they are paired as they stream past. Where they part, the rest of the step
(at most WINDOW calls) is aligned in three passes, and every pair says which pass matched it:

    exact     the same operator, module, phase, autograd node and shapes, called equally often on both sides
    shape     the same operator (in-place or not, any overload), module and output shapes, equally often
    sequence  longest common subsequence of what is left between two matched neighbours
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from .format import Event, Site

WINDOW = 50_000  # calls held in memory per side while aligning
MAX_GAP = 3_000  # calls per side that the sequence pass compares between two matched neighbours

PASSES = ("exact", "shape", "sequence")


@dataclass(slots=True)
class Pair:
    """Two matched calls, or a call without a partner (the other side is None and so is `matched`)."""

    a: Event | None
    b: Event | None
    matched: str | None


class SiteKeys:
    """Small numbers for what makes two calls "the same", shared by both traces."""

    def __init__(self, describe: Callable[[Site], Hashable]) -> None:
        self._describe = describe
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Site, int]] = {}

    def of(self, site: Site) -> int:
        known = self._known.get(id(site))
        if known is None:  # the site is kept so that its address is not used again
            number = self._numbers.setdefault(self._describe(site), len(self._numbers))
            known = self._known[id(site)] = (site, number)
        return known[1]


def align(a: Iterable[Event], b: Iterable[Event]) -> Iterator[Pair]:
    """Pairs in the order of the first trace; calls of the second without partner come where they were made."""
    exact = SiteKeys(_exact_key)
    left, right = _Stream(a), _Stream(b)
    while True:
        x, y = left.peek(), right.peek()
        if x is None and y is None:
            return
        if x is not None and y is not None and x.step == y.step and exact.of(x.site) == exact.of(y.site):
            yield Pair(left.take(), right.take(), "exact")
            continue
        yield from _align_block(left, right, exact)


class _Stream:
    """An iterator of events that can be looked at and put back."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = iter(events)
        self._waiting: list[Event] = []  # in reverse order

    def peek(self) -> Event | None:
        if not self._waiting:
            event = next(self._events, None)
            if event is None:
                return None
            self._waiting.append(event)
        return self._waiting[-1]

    def take(self) -> Event:
        self.peek()
        return self._waiting.pop()

    def take_step(self, step: int, limit: int) -> list[Event]:
        taken: list[Event] = []
        while len(taken) < limit and (event := self.peek()) is not None and event.step == step:
            taken.append(self.take())
        return taken

    def put_back(self, events: list[Event]) -> None:
        self._waiting.extend(reversed(events))


def _align_block(left: _Stream, right: _Stream, exact: SiteKeys) -> Iterator[Pair]:
    step = min(event.step for event in (left.peek(), right.peek()) if event is not None)
    a, b = left.take_step(step, WINDOW), right.take_step(step, WINDOW)
    matches = _match(a, b, exact)
    end_a, end_b = len(a), len(b)
    if len(a) == WINDOW or len(b) == WINDOW:  # the step goes on: what follows the last match is aligned with the rest
        last_a, last_b = (max((m[side] for m in matches), default=-1) + 1 for side in (0, 1))
        if last_a and last_b:
            left.put_back(a[last_a:])
            right.put_back(b[last_b:])
            end_a, end_b = last_a, last_b
    yield from _merge(a[:end_a], b[:end_b], matches)


def _match(a: list[Event], b: list[Event], exact: SiteKeys) -> list[tuple[int, int, str]]:
    """(position in a, position in b, pass), sorted by the first."""
    free_a, free_b = list(range(len(a))), list(range(len(b)))
    matches: list[tuple[int, int, str]] = []
    loose = SiteKeys(_loose_key)
    for name, keys in (("exact", exact), ("shape", loose)):
        found = _equally_often(a, b, free_a, free_b, keys)
        matches += [(i, j, name) for i, j in found]
        used_a, used_b = {i for i, _ in found}, {j for _, j in found}
        free_a = [i for i in free_a if i not in used_a]
        free_b = [j for j in free_b if j not in used_b]
    matches.sort()
    matches += [(i, j, "sequence") for i, j in _by_sequence(a, b, free_a, free_b, matches, SiteKeys(_token))]
    return sorted(matches)


def _equally_often(
    a: list[Event], b: list[Event], free_a: list[int], free_b: list[int], keys: SiteKeys
) -> list[tuple[int, int]]:
    """Pairs calls whose key is as frequent on both sides, in order."""
    by_a, by_b = defaultdict(list), defaultdict(list)
    for i in free_a:
        by_a[keys.of(a[i].site)].append(i)
    for j in free_b:
        by_b[keys.of(b[j].site)].append(j)
    pairs: list[tuple[int, int]] = []
    for key, positions in by_a.items():
        if len(positions) == len(by_b.get(key, ())):
            pairs += zip(positions, by_b[key], strict=True)
    return pairs


def _by_sequence(
    a: list[Event], b: list[Event], free_a: list[int], free_b: list[int],
    matches: list[tuple[int, int, str]], tokens: SiteKeys,
) -> list[tuple[int, int]]:  # fmt: skip
    """Longest common subsequences of the free calls between neighbouring matches that are in order on both sides."""
    anchors = _in_order([(i, j) for i, j, _ in matches]) + [(len(a), len(b))]
    pairs: list[tuple[int, int]] = []
    at_a = at_b = 0
    for end_a, end_b in anchors:
        gap_a, gap_b = [], []
        while at_a < len(free_a) and free_a[at_a] < end_a:
            gap_a.append(free_a[at_a])
            at_a += 1
        while at_b < len(free_b) and free_b[at_b] < end_b:
            gap_b.append(free_b[at_b])
            at_b += 1
        if not gap_a or not gap_b or max(len(gap_a), len(gap_b)) > MAX_GAP:
            continue
        words = [tokens.of(a[i].site) for i in gap_a], [tokens.of(b[j].site) for j in gap_b]
        for block in difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks():
            pairs += zip(gap_a[block.a : block.a + block.size], gap_b[block.b : block.b + block.size], strict=True)
    return pairs


def _in_order(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The pairs, sorted by the first number, whose second numbers rise as well (greedy)."""
    kept: list[tuple[int, int]] = []
    for i, j in pairs:
        if not kept or j > kept[-1][1]:
            kept.append((i, j))
    return kept


def _merge(a: list[Event], b: list[Event], matches: list[tuple[int, int, str]]) -> Iterator[Pair]:
    partner = {i: (j, name) for i, j, name in matches}
    used = {j for _, j, _ in matches}
    at_b = 0
    for i, event in enumerate(a):
        if i not in partner:
            yield Pair(event, None, None)
            continue
        j, name = partner[i]
        for k in range(at_b, j):
            if k not in used:
                yield Pair(None, b[k], None)
        at_b = max(at_b, j + 1)
        yield Pair(event, b[j], name)
    for k in range(at_b, len(b)):
        if k not in used:
            yield Pair(None, b[k], None)


def _shapes(metas: tuple[dict, ...], *names: str) -> tuple:
    return tuple(tuple(str(meta[name]) for name in names) for meta in metas)


def _exact_key(site: Site) -> Hashable:
    return (
        site.op, site.module, site.phase, site.node, site.param,
        _shapes(site.inputs, "dtype", "shape"), _shapes(site.outputs, "dtype", "shape"),
    )  # fmt: skip


def base_name(op: str) -> str:
    """`aten::add_.Tensor` -> `aten::add`."""
    return op.partition(".")[0].rstrip("_")


def _loose_key(site: Site) -> Hashable:
    return base_name(site.op), site.module, _shapes(site.outputs, "shape")


def _token(site: Site) -> Hashable:
    return base_name(site.op), _shapes(site.outputs, "shape")
