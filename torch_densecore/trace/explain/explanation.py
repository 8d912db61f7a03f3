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
from . import bounds, words
from .model import Model
from .models import candidates

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
        if model.part is not None:
            if self.outputs and outputs and _same_bits(self.outputs[0][model.part], outputs[0]):
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
    """The answer for one origin. verdict: "rounding", "beyond rounding", "unknown", "not arithmetic".

    reason: what made the sides differ; size: of the difference; conclusion: whether it is rounding.
    """

    origin: Origin
    reason: str
    size: str = ""
    conclusion: str = ""
    verdict: str = "unknown"
    tried: int = 0
    models_a: list[str] = field(default_factory=list)
    models_b: list[str] = field(default_factory=list)
    replays_a: list[str] = field(default_factory=list)
    replays_b: list[str] = field(default_factory=list)
    difference: Difference = field(default_factory=Difference)

    @property
    def answer(self) -> str:
        """Reason, size and conclusion."""
        return "; ".join(filter(None, (self.reason, self.size, self.conclusion))) + "."

    @property
    def text(self) -> str:
        """The answer with its place, as one sentence."""
        return f"{words.place(self.origin)}: {self.answer}"

    @property
    def explained(self) -> bool:
        """Whether an arithmetic model has the bits of both sides."""
        return bool(self.models_a and self.models_b)

    @property
    def reproduced(self) -> bool:
        """Whether each side is known at least as a model or as a code path of this machine."""
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
            explanations.append(Explanation(origin, words.other_kind(origin), verdict="not arithmetic"))
            continue
        call = calls_a.get(origin.first[0]) or calls_b.get(origin.first[1])
        if call is None:
            explanations.append(Explanation(origin, NO_TENSORS))
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
            side.bound = bounds.check(call, side.outputs)
    difference = exact_difference(sides, origin)
    verdict = _verdict(sides)
    a, b = sides
    return Explanation(
        origin, words.reason(a, b, len(models)), words.size(difference), words.conclusion(sides, verdict), verdict,
        len(models), [m.words() for m in a.models], [m.words() for m in b.models], a.replays, b.replays, difference,
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
    threads = {1, 2, *(e.get("threads", {}).get("intra_op") for e in environments)}
    threads = {count for count in threads if isinstance(count, int) and 0 < count <= 2 * (os.cpu_count() or 1)}
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
    if model.part is not None:
        return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
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


def _verdict(sides: tuple[Side, Side]) -> str:
    if all(side.bound is not None for side in sides):
        return "rounding" if all(side.bound.within for side in sides) else "beyond rounding"
    known = [side for side in sides if side.bound is not None]
    return "beyond rounding" if any(not side.bound.within for side in known) else "unknown"


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and tensor_digest(a.contiguous()) == tensor_digest(b.contiguous())


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
