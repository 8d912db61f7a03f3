"""Compares two traces: where do two runs first differ, and what merely follows from it?

An **origin** is a call with equal inputs and unequal outputs. A call whose inputs already differ has **inherited** the
difference (or **absorbed** it, when its outputs are equal all the same). Random draws are judged by the generator's
state: equal states and other numbers is an origin of the operator, unequal states one of the program's draws.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .align import Pair, align
from .errors import TraceError
from .format import Event, Site, TraceReader
from .layout import layout_code, sample_bytes
from .ulp import ELEMENT_SIZES, ulp_distance

MIN_MATCHED = 0.2  # below this share of matched calls the traces are of different programs

ORIGIN_KINDS = {
    "arithmetic": "equal inputs, unequal outputs",
    "random numbers": "equal generator state, other numbers",
    "generator state": "the generator is in another state",
    "generator use": "equal numbers, but another count of draws",
    "arguments": "equal tensors, other scalar arguments",
    "data": "an input from outside the run differs",
}
# a long text of which the parts that matter stand alone; the seed before the program has set its own
NOT_COMPARED = ("torch.config", "seeds.torch")
SAME = ("equal", "not replayed")  # verdicts that are no difference


@dataclass
class Difference:
    """Size of the difference of one call's outputs. exact: counted over all elements, else over the samples."""

    elements: int = 0
    differing: int = 0
    max_ulp: float = 0.0
    exact: bool = False

    @property
    def share(self) -> float:
        return self.differing / self.elements if self.elements else 0.0


@dataclass
class Origin:
    """All origins of one kind at one place in the program; `first` is the earliest."""

    kind: str
    op: str
    module: str
    phase: str
    source: str
    shapes: str
    step: int
    first: tuple[int, int]
    events: list[tuple[int, int]] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)
    detail: str = ""


@dataclass
class Comparison:
    """What `compare` found. Counters count calls."""

    a: TraceReader
    b: TraceReader
    environment: list[tuple[str, Any, Any]] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    passes: Counter[str] = field(default_factory=Counter)
    origins: list[Origin] = field(default_factory=list)
    unmatched: list[tuple[str, int, str, str]] = field(default_factory=list)  # first 1000 (side, event, op, module)
    by_module: dict[tuple[int, str], Counter[str]] = field(default_factory=dict)
    by_op: dict[str, Counter[str]] = field(default_factory=dict)
    layouts: int = 0
    accumulation: list[tuple[int, list[str], list[str]]] = field(default_factory=list)
    rng_steps: list[int] = field(default_factory=list)  # steps that begin with another generator state or seed
    # one entry per differing pair, for the plot
    places: array = field(default_factory=lambda: array("I"))
    shares: array = field(default_factory=lambda: array("f"))
    ulps: array = field(default_factory=lambda: array("f"))
    is_origin: array = field(default_factory=lambda: array("b"))
    steps: array = field(default_factory=lambda: array("I"))  # place at which each step begins
    calls: int = 0

    @property
    def differ(self) -> bool:
        """Whether any recorded bit or call differs."""
        different = sum(count for verdict, count in self.verdicts.items() if verdict not in SAME)
        return bool(different or self.accumulation)

    @property
    def problems(self) -> list[str]:
        """Damage of the files."""
        return [f"{r.path}: {r.summary.problem}" for r in (self.a, self.b) if r.summary.problem]

    @property
    def incomplete(self) -> list[str]:
        """Files of runs that were killed."""
        return [str(r.path) for r in (self.a, self.b) if r.summary.status == "killed" and not r.summary.problem]


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """Compares two trace files. Raises `TraceError` when one cannot be read or they are of different programs."""
    return _Comparer(TraceReader(a), TraceReader(b)).run()


class _Comparer:
    def __init__(self, a: TraceReader, b: TraceReader) -> None:
        self.result = Comparison(a, b, environment_differences(a.environment, b.environment))
        self._site_pairs: dict[tuple[int, int], _SitePair] = {}
        self._always_comparable = a.header.get("order") == b.header.get("order") == "logical"
        self._origins: dict[Any, Origin] = {}
        # digests that this run made and that differ from the other side's: an input not among them came from outside
        self._made: tuple[set[str], set[str]] = set(), set()
        self._rng_in_step = True
        self._orders: tuple[dict[int, list[str]], dict[int, list[str]]] = {}, {}
        self._rng_marks: tuple[dict[int, str], dict[int, str]] = {}, {}
        self._step = -1

    def run(self) -> Comparison:
        result = self.result
        for pair in align(self._events(result.a, 0), self._events(result.b, 1)):
            self._judge(pair)
        result.origins = list(self._origins.values())
        self._check_usable()
        marks_a, marks_b = self._rng_marks
        # a program seeds after the recording has begun, so the state at step 0 says nothing
        result.rng_steps = [s for s in marks_a if s and s in marks_b and marks_a[s] != marks_b[s]]
        self._compare_accumulation()
        return result

    def _events(self, reader: TraceReader, side: int) -> Iterator[Event]:
        """The events of one side; notes the generator's state at every step and the order of accumulated gradients."""
        for item in reader.lines():
            if isinstance(item, Event):
                if item.site.node == "AccumulateGrad":
                    order = self._orders[side].setdefault(item.step, [])
                    if not order or order[-1] != item.site.param:
                        order.append(item.site.param)
                yield item
            elif "step" in item:
                self._rng_marks[side][item["step"]] = str(item.get("rng"))

    def _judge(self, pair: Pair) -> None:
        result = self.result
        place = result.calls
        result.calls += 1
        event = pair.a or pair.b
        if event.step != self._step:
            self._step = event.step
            result.steps.append(place)
        if pair.a is None or pair.b is None:
            self._unmatched(pair)
            return
        result.passes[pair.matched] += 1
        a, b = pair.a, pair.b
        if a.inputs == b.inputs and a.outputs == b.outputs and a.rng == b.rng:
            sites = self._sites(a.site, b.site)
            if sites.plain:
                self._count("equal", a)
                if a.rng:
                    self._rng_in_step = True
                return
        self._judge_unequal(a, b, place)

    def _judge_unequal(self, a: Event, b: Event, place: int) -> None:
        sites = self._sites(a.site, b.site)
        ins = _digests_equal(a.inputs, b.inputs, sites.inputs)
        outs = _digests_equal(a.outputs, b.outputs, sites.outputs)
        if not (all(sites.inputs) and all(sites.outputs)):
            self.result.layouts += 1
        kind = self._rng_kind(a, b, ins, outs)
        if kind is None and outs is not False:
            verdict = "equal" if ins is not False else "absorbed"
        elif kind is None and ins is None:
            verdict = "uncertain"
        elif kind is None and ins is False:
            kind = self._data_kind(a, b)
            verdict = "origin" if kind else "inherited"
        elif kind == "follows":
            verdict = "inherited"
        else:
            kind = kind or ("arguments" if sites.arguments else "arithmetic")
            verdict = "origin"
        self._count(verdict, a)
        if outs is False:
            self._remember(a, b)
        if verdict == "equal" or verdict == "absorbed":
            return
        difference = sampled_difference(a, b)
        if verdict == "origin":
            self._origin(kind, a, b, sites, difference)
        if difference.elements:
            self._plot(place, difference, verdict == "origin")

    def _rng_kind(self, a: Event, b: Event, ins: bool | None, outs: bool | None) -> str | None:
        """How a random operator differs; None when it draws nothing or differs for another reason."""
        if a.rng is None or b.rng is None:
            return None
        if a.rng[0] == a.rng[1] and b.rng[0] == b.rng[1]:  # could have drawn but did not (dropout of 0)
            return None
        same_before, same_after = a.rng[0] == b.rng[0], a.rng[1] == b.rng[1]
        was_in_step, self._rng_in_step = self._rng_in_step, same_after
        if not same_before:
            if outs is False and ins is not False:
                return "generator state" if was_in_step else "follows"
            return None
        if ins is not False and outs is False:
            return "random numbers"
        return None if same_after else "generator use"

    def _data_kind(self, a: Event, b: Event) -> str | None:
        """"data" when a differing input was made by no recorded call on either side."""
        made_a, made_b = self._made
        pairs = [(x, y) for x, y in zip(a.inputs, b.inputs, strict=False) if x != y and x and y]
        outside = [(x, y) for x, y in pairs if x not in made_a and y not in made_b]
        if not outside:
            return None
        made_a.update(x for x, _ in outside)  # said once
        made_b.update(y for _, y in outside)
        return "data" if len(outside) == len(pairs) else None

    def _remember(self, a: Event, b: Event) -> None:
        made_a, made_b = self._made
        made_a.update(digest for digest in a.outputs if digest)
        made_b.update(digest for digest in b.outputs if digest)

    def _origin(self, kind: str, a: Event, b: Event, sites: _SitePair, difference: Difference) -> None:
        site = a.site
        key = (kind, sites.key)
        origin = self._origins.get(key)
        if origin is None:
            origin = self._origins[key] = Origin(
                kind, site.op, site.module, site.phase, site.source, shapes_of(site), a.step, (a.index, b.index),
                difference=difference, detail=sites.arguments,
            )  # fmt: skip
        origin.events.append((a.index, b.index))

    def _unmatched(self, pair: Pair) -> None:
        side, event = ("a", pair.a) if pair.a is not None else ("b", pair.b)
        if "replay" in (self.result.b if side == "a" else self.result.a).environment:
            self._count("not replayed", event)  # its tensors were not stored
            return
        self._count(f"only {side}", event)
        self._made["ab".index(side)].update(digest for digest in event.outputs if digest)
        if len(self.result.unmatched) < 1000:
            self.result.unmatched.append((side, event.index, event.site.op, event.site.module))

    def _count(self, verdict: str, event: Event) -> None:
        result = self.result
        result.verdicts[verdict] += 1
        key = (event.step, event.site.module)
        counts = result.by_module.get(key)
        if counts is None:
            counts = result.by_module[key] = Counter()
        counts[verdict] += 1
        if verdict not in SAME:
            result.by_op.setdefault(event.site.op, Counter())[verdict] += 1

    def _plot(self, place: int, difference: Difference, origin: bool) -> None:
        result = self.result
        result.places.append(place)
        result.shares.append(difference.share)
        result.ulps.append(min(difference.max_ulp, 3e38))
        result.is_origin.append(origin)

    def _sites(self, a: Site, b: Site) -> _SitePair:
        key = (a.id, b.id)
        pair = self._site_pairs.get(key)
        if pair is None:
            pair = self._site_pairs[key] = _SitePair(a, b, self._always_comparable)
        return pair

    def _compare_accumulation(self) -> None:
        if any("replay" in reader.environment for reader in (self.result.a, self.result.b)):
            return  # a replay has the calls whose tensors were stored, no more
        orders_a, orders_b = self._orders
        for step, order in orders_a.items():
            if step in orders_b and orders_b[step] != order:
                self.result.accumulation.append((step, order, orders_b[step]))

    def _check_usable(self) -> None:
        result = self.result
        for reader in (result.a, result.b):
            if reader.summary.events == 0:
                why = reader.summary.problem or "the run recorded no operator"
                raise TraceError(f"{reader.path} holds no operator call: {why}")
        matched = sum(result.passes.values())
        most = max(result.a.summary.events, result.b.summary.events) - result.verdicts["not replayed"]
        if matched < MIN_MATCHED * most and not (result.problems or result.incomplete):
            raise TraceError(
                f"these are traces of different programs: only {matched} of {most} operator calls could be matched "
                f"({_program(result.a)} against {_program(result.b)})"
            )


class _SitePair:
    """What two sites have in common, worked out once."""

    def __init__(self, a: Site, b: Site, always_comparable: bool) -> None:
        self.inputs = _comparable(a.inputs, b.inputs, always_comparable)
        self.outputs = _comparable(a.outputs, b.outputs, always_comparable)
        self.arguments = _argument_differences(a, b)
        self.key = (a.op, a.module, a.phase, a.node, shapes_of(a))
        # nothing but the digests can differ
        self.plain = all(self.inputs) and all(self.outputs) and not self.arguments


def environment_differences(a: dict[str, Any], b: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """(dotted name, value of a, value of b) of everything that differs; None where a side has no such entry."""
    flat_a, flat_b = dict(_flatten(a)), dict(_flatten(b))
    names = [name for name in dict.fromkeys([*flat_a, *flat_b]) if name not in NOT_COMPARED]
    return [(n, flat_a.get(n), flat_b.get(n)) for n in names if flat_a.get(n) != flat_b.get(n)]


def sampled_difference(a: Event, b: Event) -> Difference:
    """Difference of two calls' outputs over their samples."""
    total = Difference()
    for x, y, meta in zip(a.samples, b.samples, a.site.outputs, strict=False):
        if x and y and len(x) == len(y) and not len(sample_bytes(x)) % ELEMENT_SIZES.get(meta["dtype"], 1):
            add_difference(total, sample_bytes(x), sample_bytes(y), meta["dtype"])
    return total


def add_difference(total: Difference, a: bytes, b: bytes, dtype: str) -> None:
    """Adds the elements of one output."""
    distance = ulp_distance(a, b, dtype)
    total.elements += distance.size
    total.differing += int(np.count_nonzero(distance))
    if distance.size:
        total.max_ulp = max(total.max_ulp, float(distance.max()))


def shapes_of(site: Site) -> str:
    """`float32[4, 8], float32[8] -> float32[4, 8]`."""
    ins, outs = (", ".join(f"{m['dtype']}{m['shape']}" for m in side) for side in (site.inputs, site.outputs))
    return f"{ins} -> {outs}" if ins else outs


def _digests_equal(a: list[str | None], b: list[str | None], comparable: list[bool]) -> bool | None:
    """True, False, or None when nothing differs that can be compared but something could not be."""
    unknown = len(a) != len(b)
    for x, y, sure in zip(a, b, comparable, strict=False):
        if x == y:
            continue
        if x is None or y is None or not sure:
            unknown = True
        else:
            return False
    return None if unknown else True


def _comparable(a: tuple[dict, ...], b: tuple[dict, ...], always: bool) -> list[bool]:
    return [always or _layout(x) == _layout(y) for x, y in zip(a, b, strict=False)]


def _layout(meta: dict[str, Any]) -> str:
    if meta["stride"] is None:
        return "not strided"
    return layout_code(tuple(meta["shape"]), tuple(meta["stride"]))


def _argument_differences(a: Site, b: Site) -> str:
    flat_a, flat_b = dict(_flatten_args(a.args)), dict(_flatten_args(b.args))
    names = [name for name in dict.fromkeys([*flat_a, *flat_b]) if flat_a.get(name) != flat_b.get(name)]
    return ", ".join(f"{name}: {flat_a.get(name)} / {flat_b.get(name)}" for name in names)


def _flatten_args(args: list[Any]) -> Iterator[tuple[str, Any]]:
    """(name, value) of the arguments; the device is no difference, tensors are judged by their digests."""
    positional, named = args
    for name, value in [*((f"argument {i}", v) for i, v in enumerate(positional)), *named.items()]:
        if not (isinstance(value, dict) and "device" in value):
            yield name, value


def _flatten(data: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, " ".join(map(str, data)) if isinstance(data, list) else data


def _program(reader: TraceReader) -> str:
    command = reader.environment.get("program", {}).get("command")
    return " ".join(map(str, command))[:80] if isinstance(command, list) and command else "an unnamed program"
