"""A `Model`: one candidate arithmetic of an operator, as traits in words and a function that computes the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..replay import Call
from .arith import Array

LANES = (4, 8, 16)
LANE_NAMES = {4: "4 lanes (NEON, SSE)", 8: "8 lanes (AVX2 or generic)", 16: "16 lanes (AVX-512)"}
# how vec::reduce_all ends: SIMD code adds the lanes by halves, generic code in order
REDUCTIONS = {
    **{(lanes, "halves"): f"adds in {name}" for lanes, name in LANE_NAMES.items()},
    (8, "order"): "adds in 8 lanes (generic), lanes added in order",
}
THREADS = (1, 2, 4, 8)
MAX_WORK = 4e6  # multiply-adds that one model may cost; of larger calls a part is tried
GRAIN = 32768  # elements from which ATen uses another thread

Family = Callable[[Call], Iterator["Model"]]


@dataclass(frozen=True)
class Model:
    """One candidate. compute: outputs (numpy) in the order of the event; None: an output it says nothing about."""

    traits: tuple[tuple[str, str], ...]
    compute: Callable[[], list[Array | None]]
    part: tuple[slice, ...] | None = None  # of the first output, when no more of it is computed (large calls)

    def words(self) -> str:
        return ", ".join(text for _, text in self.traits if text)


def model(compute: Callable[[], Any], part: tuple[slice, ...] | None = None, **traits: str) -> Model:
    """A model of `traits` (shown in their order) whose `compute` returns one output or several."""

    def outputs() -> list[Array | None]:
        result = compute()
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return Model(tuple((name.replace("_", " "), text) for name, text in traits.items()), outputs, part)


def base_of(call: Call) -> str:
    """`aten::add_.Tensor` -> `add_`."""
    return call.site.op.partition("::")[2].partition(".")[0]


def argument(call: Call, position: int, name: str, default: Any = None) -> Any:
    """A non-tensor argument by its position or its name (a tensor comes as {"$": number})."""
    args, kwargs = call.site.args
    return args[position] if position < len(args) else kwargs.get(name, default)


def numpy_of(tensor: torch.Tensor) -> Array:
    return tensor.detach().contiguous().numpy()


def tensor_argument(call: Call, position: int, name: str) -> Array | None:
    """A tensor argument as numpy; None when it was not given."""
    value = argument(call, position, name)
    return None if value is None else numpy_of(call.inputs[value["$"]])


def fusion_words(fused: bool) -> str:
    return "fused multiply-add" if fused else "rounded products"


def thread_words(threads: int) -> str:
    return f"cut into {threads} thread chunks" if threads > 1 else "in one piece"
