"""Finds, for every origin of a comparison, the arithmetic that reproduces each side, and says it in words."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..comparison import Comparison, Difference, Origin, add_difference
from ..digest import tensor_digest
from ..errors import TraceError
from ..format import Event
from ..replay import Call, host_variants, load_calls, run
from ..terminal import size_text
from . import bounds
from .models import Model, candidates

NEAR = 0.02  # share of elements that a nearly right model may miss
NO_TENSORS = (
    "its inputs are not stored: record one side again with --keep-tensors first-divergence --against OTHER.dct, "
    "or give the program: densecore explain A.dct B.dct -- python train.py"
)


@dataclass
class Side:
    """What is known of one side of an origin."""

    name: str
    event: Event
    order: str
    outputs: list[torch.Tensor] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    near: tuple[Model, int] | None = None  # the model with the fewest other elements, and their number
    replays: list[str] = field(default_factory=list)
    bound: bounds.Bound | None = None

    def matches(self, outputs: list[torch.Tensor | None]) -> bool:
        """Whether outputs have this side's bits (those that are None are not judged)."""
        pairs = list(zip(outputs, self.event.outputs, strict=False))
        digests = [(tensor_digest(tensor, self.order), digest) for tensor, digest in pairs if tensor is not None]
        return bool(digests) and all(a == b for a, b in digests)

    def judge(self, model: Model, outputs: list[torch.Tensor | None]) -> None:
        """Notes a model that reproduces this side, or comes nearest to it where the side's values are stored."""
        if model.rows is not None:
            if self.outputs and outputs and torch.equal(self.outputs[0][: model.rows], outputs[0]):
                self.models.append(model)
            return
        if self.matches(outputs):
            self.models.append(model)
            self.outputs = self.outputs or [tensor for tensor in outputs if tensor is not None]
            return
        pairs = [(x, y) for x, y in zip(outputs, self.outputs, strict=False) if x is not None]
        if not pairs or any(x.shape != y.shape or x.dtype != y.dtype for x, y in pairs):
            return
        total = Difference()
        for x, y in pairs:
            add_difference(total, _bytes(x), _bytes(y), str(x.dtype).removeprefix("torch."))
        if total.share <= NEAR and (self.near is None or total.differing < self.near[1]):
            self.near = (model, total.differing)


@dataclass
class Explanation:
    """The answer for one origin. verdict: "rounding", "beyond rounding", "unknown"."""

    origin: Origin
    text: str
    verdict: str = "unknown"
    tried: int = 0
    models_a: list[str] = field(default_factory=list)
    models_b: list[str] = field(default_factory=list)
    replays_a: list[str] = field(default_factory=list)
    replays_b: list[str] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)

    @property
    def explained(self) -> bool:
        return bool((self.models_a or self.replays_a) and (self.models_b or self.replays_b))


def explain(result: Comparison, *, extra: dict[int, Call] | None = None, replays: bool = True) -> list[Explanation]:
    """Explains each origin of a comparison by its first event.

    extra: calls made again with their tensors, by event index of side a. replays: also try this machine's own code
    paths (starts one process for each instruction set).
    """
    wanted = {origin.first for origin in result.origins if origin.kind in ("arithmetic", "random numbers")}
    calls_a = {**load_calls(result.a.path, {a for a, _ in wanted}), **(extra or {})}
    calls_b = load_calls(result.b.path, {b for _, b in wanted})
    events = _events(result, wanted)
    variants = _variants(result, wanted, calls_a, calls_b) if replays else {}
    explanations = []
    for origin in sorted(result.origins, key=lambda o: o.first):
        if origin.first not in wanted:
            explanations.append(_other_kind(origin))
            continue
        call = calls_a.get(origin.first[0]) or calls_b.get(origin.first[1])
        if call is None:
            explanations.append(Explanation(origin, f"{_place(origin)}: {NO_TENSORS}."))
            continue
        sides = _sides(result, origin, events, calls_a, calls_b)
        explanations.append(_explain_one(origin, call, sides, variants.get(origin.first, {})))
    return explanations


def _explain_one(origin: Origin, call: Call, sides: tuple[Side, Side], replayed: dict[str, Any]) -> Explanation:
    models = candidates(call)
    for model in models:
        outputs = model_outputs(model, call)
        for side in sides:
            side.judge(model, outputs)
    for name, digests in replayed.items():
        for side in sides:
            if digests and digests == side.event.outputs:
                side.replays.append(name)
    _try_device(call, sides)
    for side in sides:
        if side.replays and not side.outputs and side.matches(outputs := run(call)):
            side.outputs = outputs
        if side.outputs:
            side.bound = bounds.check(call, side.outputs[0])
    difference = exact_difference(sides, origin)
    verdict = _verdict(sides)
    a, b = sides
    return Explanation(
        origin, _sentence(origin, sides, difference, verdict, len(models)), verdict, len(models),
        [m.words() for m in a.models], [m.words() for m in b.models], a.replays, b.replays, difference,
    )  # fmt: skip


def exact_difference(sides: tuple[Side, Side], origin: Origin) -> Difference:
    """Over all elements when both sides' outputs are known, else the estimate from the samples."""
    a, b = sides
    if not (a.outputs and b.outputs):
        return origin.difference
    total = Difference(exact=True)
    for x, y in zip(a.outputs, b.outputs, strict=False):
        if x.shape == y.shape and x.dtype == y.dtype:
            add_difference(total, _bytes(x), _bytes(y), str(x.dtype).removeprefix("torch."))
    return total


# -- gathering ------------------------------------------------------------------------------------------------------


def _events(result: Comparison, wanted: set[tuple[int, int]]) -> dict[tuple[str, int], Event]:
    found = {}
    for name, reader, place in (("a", result.a, 0), ("b", result.b, 1)):
        indices = {pair[place] for pair in wanted}
        found.update({(name, event.index): event for event in reader.events() if event.index in indices})
    return found


def _sides(
    result: Comparison, origin: Origin, events: dict[tuple[str, int], Event], calls_a: dict[int, Call],
    calls_b: dict[int, Call],
) -> tuple[Side, Side]:  # fmt: skip
    sides = []
    for name, reader, index, calls in (
        ("A", result.a, origin.first[0], calls_a),
        ("B", result.b, origin.first[1], calls_b),
    ):
        side = Side(name, events[name.lower(), index], reader.header.get("order", "memory"))
        call = calls.get(index)
        if call is not None and call.outputs and side.matches(list(call.outputs)):
            side.outputs = call.outputs
        sides.append(side)
    return sides[0], sides[1]


def _variants(
    result: Comparison, wanted: set[tuple[int, int]], calls_a: dict[int, Call], calls_b: dict[int, Call]
) -> dict[tuple[int, int], dict[str, Any]]:
    """Output digests by this machine's code paths, for every origin whose tensors are stored in a file."""
    environments = (result.a.environment, result.b.environment)
    threads = {1, 2, *(e.get("threads", {}).get("intra_op", 1) for e in environments)}
    threads = {count for count in threads if count <= 2 * (os.cpu_count() or 1)}
    found: dict[tuple[int, int], dict[str, Any]] = {pair: {} for pair in wanted}
    for reader, place, calls in ((result.a, 0, calls_a), (result.b, 1, calls_b)):
        missing = {pair for pair in wanted if pair[place] in calls and not found[pair]}
        stored = {pair[place] for pair in missing}
        if not stored:
            continue
        for name, digests in host_variants(str(reader.path), stored, threads).items():
            for pair in missing:
                if pair[place] in digests:
                    found[pair][name] = digests[pair[place]]
    return found


def _try_device(call: Call, sides: tuple[Side, Side]) -> None:
    """The densecore device, where it is loaded: the reference Mac's bits."""
    if not hasattr(torch, "densecore"):
        return
    from ... import profile

    try:
        outputs = [tensor.cpu() for tensor in run(call, "densecore")]
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return
    for side in sides:
        if side.matches(outputs):
            side.replays.append(f"densecore, profile {profile.current().name}")
            side.outputs = side.outputs or outputs


def model_outputs(model: Model, call: Call) -> list[torch.Tensor | None]:
    try:
        with np.errstate(all="ignore"):
            arrays = model.compute()
    except (ValueError, IndexError, FloatingPointError):
        return []
    if model.rows is not None:
        return [torch.from_numpy(array) for array in arrays]
    return [
        None if array is None else _as_output(array, meta)
        for array, meta in zip(arrays, call.site.outputs, strict=False)
    ]


def _as_output(array: np.ndarray, meta: dict[str, Any]) -> torch.Tensor:
    """A model's result with the recorded dtype and strides (bfloat16 arrives as its bits)."""
    tensor = torch.from_numpy(np.ascontiguousarray(array)).reshape(meta["shape"])
    dtype = getattr(torch, meta["dtype"])
    if tensor.dtype != dtype:
        tensor = tensor.view(torch.int16).view(dtype) if dtype == torch.bfloat16 else tensor.to(dtype)
    if meta["stride"] and tuple(meta["stride"]) != tensor.stride() and tensor.numel():
        span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, meta["stride"], strict=True))
        tensor = torch.empty(span, dtype=dtype).as_strided(tensor.shape, meta["stride"]).copy_(tensor)
    return tensor


# -- words ----------------------------------------------------------------------------------------------------------


def _place(origin: Origin) -> str:
    return f"{origin.op}, {origin.module}" if origin.module else f"{origin.op}, {origin.source}"


def _sentence(origin: Origin, sides: tuple[Side, Side], difference: Difference, verdict: str, tried: int) -> str:
    a, b = sides
    parts = [_model_words(a, b, tried)]
    parts += [f"side {s.name} is what this machine computes with {_names(s.replays)}" for s in sides if s.replays]
    if difference.elements:
        parts.append(
            f"{size_text(difference)} differ".replace(", max", " differ, max").removesuffix(" differ")
            if difference.differing
            else f"{size_text(difference)} differ"
        )
    parts.append(_verdict_words(sides, verdict))
    return f"{_place(origin)}: " + "; ".join(filter(None, parts)) + "."


def _model_words(a: Side, b: Side, tried: int) -> str:
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
    same = [left[name] for name in left if name not in differing]
    if not differing:
        return f"both sides: {', '.join(same)}{_missed(a)}{_missed(b)}"
    words = [f"{', '.join(t[n] for n in differing if n in t)}{_missed(s)}" for t, s in ((left, a), (right, b))]
    return f"side A: {words[0]}; side B: {words[1]}" + (f" (both: {', '.join(same)})" if same else "")


def _missed(side: Side) -> str:
    """How much of a side an almost right model misses."""
    return "" if side.models or side.near is None else f" (all but {side.near[1]} elements)"


def _closest(a: list[Model], b: list[Model]) -> tuple[Model, Model]:
    """The pair of models with the fewest differing traits."""
    return min(((x, y) for x in a for y in b), key=lambda pair: len(set(pair[0].traits) ^ set(pair[1].traits)))


def _verdict(sides: tuple[Side, Side]) -> str:
    if all(side.bound is not None for side in sides):
        return "rounding" if all(side.bound.within for side in sides) else "beyond rounding"
    known = [side for side in sides if side.bound is not None]
    return "beyond rounding" if any(not side.bound.within for side in known) else "unknown"


def _verdict_words(sides: tuple[Side, Side], verdict: str) -> str:
    if verdict == "rounding":
        if all(side.bound.proven for side in sides):
            return "rounding only, no bug (both sides are within the rounding bound of the sum)"
        return "rounding by its size (both sides are within 64 roundings of the largest value; no proven bound)"
    if verdict == "beyond rounding":
        worst = max((s for s in sides if s.bound is not None), key=lambda s: s.bound.used)
        return f"NOT rounding: side {worst.name} is {worst.bound.used:.3g} times the rounding bound away from float64"
    if any(side.bound is None and not side.outputs for side in sides):
        return "one side's values are not known, so its size is not judged"
    return "there is no rounding bound for this operator"


def _names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {', '.join(names[1:])})"


def _other_kind(origin: Origin) -> Explanation:
    words = {
        "generator state": "the random generator is in another state here: an earlier draw or seed differs, not the arithmetic",
        "generator use": "the numbers are equal but one side draws more of them",
        "arguments": f"the scalar arguments differ ({origin.detail}): look where the program computes them",
        "data": "an input that no recorded operator made differs: data, weights or files differ, not the arithmetic",
    }
    return Explanation(origin, f"{_place(origin)}: {words[origin.kind]}.", "not arithmetic")


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def rerun(result: Comparison, program: list[str], path: str) -> dict[int, Call]:
    """Runs the program again, keeping the tensors of the origins; returns those whose inputs are the recorded ones."""
    from .. import launch
    from ..recorder import record

    wanted = sorted({origin.first[0] for origin in result.origins})
    parsed = launch.parse(program)
    keep = f"events={','.join(map(str, wanted))}"
    code = launch.run(parsed, lambda: record(path, keep=keep, keep_limit=4 << 30, program=parsed.words))
    if code:
        raise TraceError(f"the program ended with exit code {code}")
    calls = load_calls(path)
    recorded = {event.index: event for event in result.a.events() if event.index in calls}
    return {index: call for index, call in calls.items() if recorded[index].inputs == call.event.inputs}
