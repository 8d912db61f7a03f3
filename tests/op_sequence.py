"""Runs a program on `cpu` and on `densecore` and compares what is dispatched below autograd, op by op.

The sequences must be equal apart from transfers: then every device-dependent branch of torch went where a CPU tensor goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

DEVICES = {"cpu", "densecore"}


def describe(value: Any, exact_numbers: bool = True) -> Any:
    """An argument without its device: shape, strides and dtype of a tensor, the value of anything else."""
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), tuple(value.stride()), value.requires_grad)
    if isinstance(value, torch.device):
        return "device" if value.type in DEVICES else str(value)
    if isinstance(value, torch.Generator):
        return "generator"
    if isinstance(value, torch.storage.UntypedStorage):
        return ("storage", value.nbytes())
    if isinstance(value, float):
        return value.hex() if exact_numbers else "number"
    return value if isinstance(value, int | str | bool | None | torch.dtype | torch.layout | torch.memory_format) else type(value)


def is_transfer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """What brings values to a device: `.to(device)` (nothing on the CPU), and the making of a Python number's tensor."""
    if name == "aten::scalar_tensor" or (name == "aten::lift_fresh" and args[0].dim() == 0):
        return True
    if name != "aten::_to_copy":
        return False
    source, device = args[0], kwargs.get("device")
    return device is not None and device.type != source.device.type and kwargs.get("dtype") in (None, source.dtype)


@dataclass
class Recorder(TorchDispatchMode):
    """Lists (op, arguments, results) of all calls but transfers."""

    exact_numbers: bool = True
    calls: list[tuple[str, Any, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        arguments = self._describe((args, kwargs))
        transfer = is_transfer(name, args, kwargs)
        result = func(*args, **kwargs)
        if not transfer:
            self.calls.append((name, arguments, self._describe(result)))
        return result

    def _describe(self, values: Any) -> list[Any]:
        return [describe(value, self.exact_numbers) for value in tree_flatten(values)[0]]


Program = Callable[[str], Any]


def record(program: Program, device: str, exact_numbers: bool) -> list[tuple[str, Any, Any]]:
    """The calls of `program(device)`, seeded alike each time."""
    torch.manual_seed(1)
    with Recorder(exact_numbers) as recorder:
        program(device)
    return recorder.calls


def assert_same_ops(
    program: Program, at_least: int = 1, ordered: bool = True, exact_numbers: bool = True
) -> list[str]:
    """Compares the two runs; returns the op names. `at_least` guards against a program that dispatches nothing.

    ordered=False is for the LSTM's states: torch stacks h and c as two arguments of one call, and gcc, which built the host's
    torch, evaluates them from the right; clang, which built the reference, from the left, and so does the device.
    exact_numbers=False is for programs that compute with numbers read from tensors: their last bits are not the host's.
    """
    cpu, own = record(program, "cpu", exact_numbers), record(program, "densecore", exact_numbers)
    if not ordered:
        cpu, own = sorted(cpu, key=repr), sorted(own, key=repr)
    for i, (expected, got) in enumerate(zip(cpu, own, strict=False)):
        before = [call[0] for call in cpu[max(0, i - 5) : i]]
        assert got == expected, f"call {i}:\n cpu       {expected}\n densecore {got}\nbefore it: {before}"
    longer = cpu if len(cpu) > len(own) else own
    assert len(cpu) == len(own), f"{len(cpu)} calls on cpu, {len(own)} on densecore; then {longer[min(len(cpu), len(own))]}"
    assert len(cpu) >= at_least
    return [name for name, _, _ in cpu]
