"""What an operator's schema tells about it: what it writes, whether it draws random numbers, whether it is a view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

# outputs are memory without a defined content
UNDEFINED = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_",
    "resize_as_", "_resize_output_", "_empty_affine_quantized",
}  # fmt: skip
# the written argument is replaced as a whole: what it held before is no input
OVERWRITES = {
    "normal_", "uniform_", "bernoulli_", "random_", "exponential_", "log_normal_", "geometric_", "cauchy_", "fill_",
    "zero_", "copy_", "set_",
}  # fmt: skip
# kernels that write to arguments which their schema calls read-only
UNDECLARED_WRITES = {"native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index"}
# the storage comes from elsewhere
FOREIGN = {"set_", "from_file", "lift", "lift_fresh"}
TRUSTED_NAMESPACES = ("aten", "prims")


@dataclass(frozen=True)
class OperatorInfo:
    """Facts of one overload."""

    overload: Any

    @cached_property
    def name(self) -> str:
        """`aten::add.Tensor`; the default overload has no suffix."""
        schema = self.overload._schema
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name

    @cached_property
    def base(self) -> str:
        return self.overload._schema.name.partition("::")[2]

    @cached_property
    def known(self) -> bool:
        """False for custom operators, whose schema is not taken at its word."""
        return self.overload.namespace in TRUSTED_NAMESPACES

    @cached_property
    def written(self) -> tuple[tuple[int, str], ...]:
        """(position, name) of the arguments that are written."""
        arguments = self.overload._schema.arguments
        found = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
        if self.base in UNDECLARED_WRITES:
            found += [(i, a.name) for i, a in enumerate(arguments) if a.name.startswith("running_")]
        return tuple(found)

    @cached_property
    def overwritten(self) -> tuple[tuple[int, str], ...]:
        """The written arguments whose old content does not matter."""
        arguments = self.overload._schema.arguments
        is_out = [pair for pair in self.written if arguments[pair[0]].is_out]
        return self.written if self.base in OVERWRITES else tuple(is_out)

    @cached_property
    def random(self) -> bool:
        return torch.Tag.nondeterministic_seeded in self.overload.tags or not self.known

    @cached_property
    def undefined(self) -> bool:
        return self.base in UNDEFINED

    @cached_property
    def view(self) -> bool:
        """The outputs are the inputs' memory seen another way."""
        returns = self.overload._schema.returns
        return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)

    @cached_property
    def foreign(self) -> bool:
        return self.base in FOREIGN or not self.known

    def select(self, which: tuple[tuple[int, str], ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The tensors among the given arguments (a list argument counts as its elements)."""
        found: list[Any] = []
        for position, name in which:
            value = args[position] if position < len(args) else kwargs.get(name)
            found.extend(tensors_in(value))
        return found


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of an argument or a result, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


_infos: dict[Any, OperatorInfo] = {}


def info_of(overload: Any) -> OperatorInfo:
    """The (cached) facts of an overload."""
    info = _infos.get(overload)
    if info is None:
        info = _infos[overload] = OperatorInfo(overload)
    return info
