"""Inputs of the other forms of an operator (in place, out, grad_input), made from those of its functional form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .comparison import Call, resolve
from .families import Case, Family, Sweep


def _outputs(schema: Any) -> list[str]:
    """Names of the arguments that an out form writes to."""
    return [a.name for a in schema.arguments if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write]


def _inputs(schema: Any) -> list[tuple[str, str]]:
    outputs = _outputs(schema)
    return [(a.name, str(a.type)) for a in schema.arguments if a.name not in outputs]


def functional(op: str, known: Mapping[str, Any]) -> str | None:
    """The operator among `known` that takes the same arguments as `op`, which writes its result: exp for exp_ and exp.out."""
    schema = resolve(op)._schema
    if not any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
        return None
    packet = op.partition(".")[0].removesuffix("_")
    for name in known:
        if name.partition(".")[0] == packet and _inputs(resolve(name)._schema) == _inputs(schema):
            return name
    return None


@dataclass(frozen=True)
class Form:
    """Calls of a form of `base`: the same arguments, and tensors to write to where the form takes them."""

    base: str
    family: Family

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """As many cases as the functional form has."""
        for number, case in enumerate(self.family(sweep)):
            yield partial(self._build, sweep.op, number, case)

    def _build(self, op: str, number: int, case: Case) -> Call:
        call = case()
        names = _outputs(resolve(op)._schema)
        if not names:
            return call
        results = self._results(call, len(names))
        return replace(call, kwargs={**call.kwargs, **{n: _to_write(r, number) for n, r in zip(names, results, strict=True)}})

    def _results(self, call: Call, count: int) -> Sequence[Any]:
        """This host's results, for their shapes and dtypes; empty tensors where it refuses the arguments."""
        torch.manual_seed(call.seed)
        try:
            results = resolve(self.base)(*call.args, **call.kwargs)
        except (RuntimeError, IndexError):
            dtype = next((value.dtype for value in tree_leaves(call.args) if isinstance(value, torch.Tensor)), torch.float32)
            return [torch.empty(0, dtype=dtype)] * count
        return results if isinstance(results, (tuple, list)) and count > 1 else [results]


def _to_write(result: Any, number: int) -> Any:
    """A tensor (or a list of them) like a result: in turn of its strides, with gaps between elements, and empty."""
    if isinstance(result, (list, tuple)):
        return [_to_write(part, number % 2) for part in tree_leaves(result)]  # the oracle resizes no tensor of a list
    if number % 3 == 2:
        return torch.empty(0, dtype=result.dtype)
    if number % 3 == 1:
        return torch.ones((*result.shape, 2), dtype=result.dtype)[..., 0]
    return torch.ones_like(result, memory_format=torch.contiguous_format)
