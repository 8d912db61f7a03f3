"""What an unmodified script shows of its results, step by step.

A step ends with an optimizer's step. Seen are: the losses, which are the roots of the backward passes; the parameters after each
step; and what leaves the device, `.item()` values and copies to the CPU (losses that are printed, logits, samples).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from torch_densecore.overrides import scope
from torch_densecore.overrides.check import element_bytes
from torch_densecore.trace.context import StepCounter
from torch_densecore.trace.digest import bytes_digest, tensor_digest
from torch_densecore.trace.ulp import ulp_distance

LEAVING = ("aten::_local_scalar_dense", "aten::copy_")
MAX_OUTPUTS = 100_000


class StopRun(BaseException):
    """Enough steps have been seen."""


@dataclass
class Step:
    """One training step: its loss (sum over its backward passes; None without any) and a digest of all parameters after it."""

    loss: float | None
    parameters: str


@dataclass
class Observed:
    """All that was seen. `outputs`: [steps done before, digest] of each value that left the device."""

    steps: list[Step] = field(default_factory=list)
    outputs: list[tuple[int, str]] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Observer:
    """Watches this process until `limit` steps are done, and then raises StopRun within the script."""

    def __init__(self, limit: int) -> None:
        self.seen = Observed()
        self._limit = limit
        self._loss: float | None = None
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._busy = False
        self._counter = StepCounter(self._step_done)
        self._backward = torch.autograd.backward

    def start(self) -> None:
        """Installs the hooks; they stay for the life of the process."""
        register_optimizer_step_post_hook(self._note_optimizer)
        self._counter.start()
        torch.autograd.backward = self._watched_backward
        scope.observers.append(self._left_device)
        scope.apply(observed=LEAVING)

    def stop(self) -> None:
        """What happens from now on is not the script's."""
        self._busy = True

    def parameters(self) -> list[torch.Tensor]:
        """The parameters of all optimizers, in the order in which they were given."""
        return [p for optimizer in self._optimizers.values() for group in optimizer.param_groups for p in group["params"]]

    def _note_optimizer(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer

    def _watched_backward(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        for root in roots:
            if root.numel() == 1:
                self._loss = (self._loss or 0.0) + self._read(root)
        return self._backward(tensors, *args, **kwargs)

    def _read(self, scalar: torch.Tensor) -> float:
        self._busy = True
        try:
            return float(scalar.detach())
        finally:
            self._busy = False

    def _step_done(self, number: int) -> None:
        self._busy = True
        try:
            digest = bytes_digest("".join(str(tensor_digest(p.detach())) for p in self.parameters()).encode())
        finally:
            self._busy = False
        self.seen.steps.append(Step(self._loss, digest))
        self._loss = None
        if number >= self._limit:
            raise StopRun

    def _left_device(self, op: str, arguments: list[Any], results: list[Any]) -> None:
        if self._busy or len(self.seen.outputs) >= MAX_OUTPUTS:
            return
        if op == "aten::copy_":
            target, source = arguments[0], arguments[1]
            if target.device.type != "cpu" or source.device.type == "cpu":
                return
            digest = tensor_digest(target, "logical")
        else:
            digest = repr(results[0])
        self.seen.outputs.append((len(self.seen.steps), str(digest)))


def save_parameters(parameters: list[torch.Tensor], path: Path) -> None:
    """Stores parameters for `compare_parameters`."""
    from safetensors.torch import save_file

    save_file({str(i): p.detach().cpu().contiguous().clone() for i, p in enumerate(parameters)}, str(path))


def compare_parameters(parameters: list[torch.Tensor], path: Path) -> dict[str, Any]:
    """Elements that differ from the stored parameters: how many, of how many, largest distance in ulp."""
    from safetensors import safe_open

    off = total = 0
    largest = 0.0
    with safe_open(str(path), framework="pt") as stored:
        if len(list(stored.keys())) != len(parameters):
            return {"off": None, "total": sum(p.numel() for p in parameters), "max_ulp": None}
        for i, parameter in enumerate(parameters):
            other = stored.get_tensor(str(i))
            distance = ulp_distance(element_bytes(parameter), element_bytes(other), str(other.dtype).removeprefix("torch."))
            off += int(np.count_nonzero(distance))
            total += len(distance)
            largest = max(largest, float(distance.max(initial=0.0)))
    return {"off": off, "total": total, "max_ulp": None if largest == float("inf") else largest}
