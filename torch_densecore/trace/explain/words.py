"""An explanation in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..comparison import Difference, Origin
from ..terminal import size_text
from .model import Model

if TYPE_CHECKING:
    from .explanation import Side


def place(origin: Origin) -> str:
    """`aten::mm, blocks.0.down`."""
    return f"{origin.op}, {origin.module}" if origin.module else f"{origin.op}, {origin.source}"


def reason(a: Side, b: Side, tried: int) -> str:
    """Which arithmetic made each side, by models and by this machine's own code paths."""
    replays = [f"side {s.name} is what this machine computes with {_names(s.replays)}" for s in (a, b) if s.replays]
    return "; ".join([_models(a, b, tried), *replays])


def size(difference: Difference) -> str:
    """`37 of 512 elements differ, max 1 ulp`."""
    if not difference.elements:
        return ""
    count, _, rest = size_text(difference).partition(", ")
    return f"{count} differ, {rest}" if rest else f"{count} differ"


def conclusion(sides: Sequence[Side], verdict: str) -> str:
    """Whether the difference is rounding, and by which bound."""
    if verdict == "rounding":
        worst = max((side.bound for side in sides), key=lambda bound: bound.used)
        if worst.proven:
            return f"rounding only, no bug (both sides are within the {worst.words})"
        return f"rounding by its size (both sides are within {worst.words}; no proven bound)"
    if verdict == "beyond rounding":
        side = max((s for s in sides if s.bound is not None), key=lambda s: s.bound.used)
        return f"NOT rounding: side {side.name} is {side.bound.used:.3g} times the rounding bound away from float64"
    if any(side.bound is None and not side.outputs for side in sides):
        return "one side's values are not known, so its size is not judged"
    return "there is no rounding bound for this operator"


def other_kind(origin: Origin) -> str:
    """Origins that are no arithmetic."""
    return {
        "generator state": "the random generator is in another state here: an earlier draw or seed differs, not the arithmetic",
        "generator use": "the numbers are equal but one side draws more of them",
        "arguments": f"the scalar arguments differ ({origin.detail}): look where the program computes them",
        "data": "an input that no recorded operator made differs: data, weights or files differ, not the arithmetic",
    }[origin.kind]


def _models(a: Side, b: Side, tried: int) -> str:
    if not tried:
        return "no arithmetic model for this operator"
    found_a, found_b = (side.models or ([side.near[0]] if side.near else []) for side in (a, b))
    if not found_a and not found_b:
        return f"none of {tried} models reproduces either side"
    if not (found_a and found_b):
        side, other, model = (a, b, found_a[0]) if found_a else (b, a, found_b[0])
        return f"side {side.name}: {model.words()}{_missed(side)}; none of {tried} models reproduces side {other.name}"
    x, y = _closest(found_a, found_b)
    left, right = dict(x.traits), dict(y.traits)
    differing = [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
    same = [left[name] for name in left if name not in differing and left[name]]
    if not differing:
        return f"both sides: {', '.join(same)}{_missed(a)}{_missed(b)}"
    said = [", ".join(t[n] for n in differing if t.get(n)) + _missed(s) for t, s in ((left, a), (right, b))]
    return f"side A: {said[0]}; side B: {said[1]}" + (f" (both: {', '.join(same)})" if same else "")


def _missed(side: Side) -> str:
    """How much of a side an almost right model misses."""
    if side.models or side.near is None:
        return ""
    count = side.near[1]
    return f" (all but {count} element{'s' if count > 1 else ''})"


def _closest(a: list[Model], b: list[Model]) -> tuple[Model, Model]:
    """The pair of models with the fewest differing traits."""
    return min(((x, y) for x in a for y in b), key=lambda pair: len(set(pair[0].traits) ^ set(pair[1].traits)))


def _names(names: list[str]) -> str:
    """`AVX2 (1 thread or 2 threads), AVX512 (1 thread or 2 threads)` from `AVX2, 1 thread` and so on."""
    settings: dict[str, list[str]] = defaultdict(list)
    for name in names:
        path, _, setting = name.partition(", ")
        settings[path].append(setting)
    return ", ".join(f"{path} ({' or '.join(said)})" for path, said in settings.items())
