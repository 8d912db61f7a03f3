"""Mode `check`: what differs between our result and another's, and what then happens."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from torch_densecore.overrides.errors import DifferenceError
from torch_densecore.overrides.precedence import Choice

log = logging.getLogger("torch_densecore.overrides")
MAX_REPORTS = 1000

quiet = False  # count only: no reports, no stop

_lock = threading.Lock()
_reports: list[Report] = []
_totals: dict[str, Totals] = {}


@dataclass(frozen=True)
class Report:
    """One call whose two sides differ.

    `call` counts the op's overridden calls from 0. `value` is the first that differs: a result, or an argument that the op writes.
    `elements_off`, `max_ulp` are over all values; `index`, `ours` and `other` (hexadecimal bits) are its first differing element's.
    """

    op: str
    call: int
    module: str
    reference: str
    inputs: tuple[str, ...]
    value: str
    elements: int
    elements_off: int
    max_ulp: float
    index: tuple[int, ...]
    ours: str
    other: str
    remark: str = ""

    def __str__(self) -> str:
        where = f"{self.op}, call {self.call}" + (f", in {self.module}" if self.module else "")
        lines = [f"{where}: densecore and {self.reference} differ: {self._size()}"]
        if self.elements_off:
            at = list(self.index)
            lines.append(f"  first in {self.value} at {at}: densecore {self.ours}, {self.reference} {self.other}")
        return "\n".join([*lines, *(f"  input {text}" for text in self.inputs)])

    def _size(self) -> str:
        parts = [f"{self.elements_off} of {self.elements} elements, max {_ulps(self.max_ulp)}"] if self.elements_off else []
        return "; ".join([*parts, self.remark] if self.remark else parts)


@dataclass
class Totals:
    """What the checks of an op have found so far."""

    calls: int = 0
    elements_off: int = 0
    elements: int = 0
    max_ulp: float = 0.0


def reports() -> list[Report]:
    """The differences that checks have found in this process, up to `MAX_REPORTS`."""
    with _lock:
        return list(_reports)


def totals() -> dict[str, Totals]:
    """Per op: differing calls, and the elements in them."""
    with _lock:
        return dict(_totals)


def clear() -> None:
    """Forgets all differences."""
    with _lock:
        _reports.clear()
        _totals.clear()


def judge(
    choice: Choice, op: str, call: int, module: str, inputs: list[Any],
    names: list[str], ours: list[Any], reference: list[Any], same_generator: bool,
) -> None:  # fmt: skip
    """Reports the difference of two sides, if it is more than a NaN's payload, and stops where the choice says so."""
    setting = choice.decided_by.setting
    found = _Found()
    for name, x, y in zip(names, ours, reference, strict=True):
        for a, b in _pairs(x, y):
            found.add(name, a, b)
    if not same_generator:
        found.remarks.append("the random generator is left in another state")
    if not found.off and not found.remarks:
        return
    _count(op, found)
    if quiet:
        return
    report = Report(
        op, call, module, setting.reference, tuple(_input_texts(inputs)), found.value, found.elements, found.off, found.max_ulp,
        found.index, found.ours, found.other, "; ".join(found.remarks),
    )  # fmt: skip
    with _lock:
        if len(_reports) < MAX_REPORTS:
            _reports.append(report)
    if setting.stop:
        raise DifferenceError(report)
    log.warning("%s", report)


class _Found:
    """Differences of all values of a call."""

    def __init__(self) -> None:
        self.elements = self.off = 0
        self.max_ulp = 0.0
        self.value = self.ours = self.other = ""
        self.index: tuple[int, ...] = ()
        self.remarks: list[str] = []

    def add(self, name: str, a: Any, b: Any) -> None:
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            if a != b:
                self.remarks.append(f"{name} is {a!r} and {b!r}")
        elif a.shape != b.shape or a.dtype != b.dtype:
            self.remarks.append(f"{name} is {_kind(a)} and {_kind(b)}")
        else:
            self._add_tensors(name, a, b)

    def _add_tensors(self, name: str, a: torch.Tensor, b: torch.Tensor) -> None:
        from torch_densecore.trace.ulp import ulp_distance

        self.elements += a.numel()
        x, y = element_bytes(a), element_bytes(b)
        distance = ulp_distance(x, y, str(a.dtype).removeprefix("torch."))
        if a.numel() and len(distance) > a.numel():  # complex: two numbers an element
            distance = distance.reshape(a.numel(), -1).max(axis=1)
        differing = np.flatnonzero(distance)
        if not len(differing):
            return
        if not self.off:
            first = int(differing[0])
            self.value, self.index = name, tuple(int(i) for i in np.unravel_index(first, tuple(a.shape)))
            self.ours, self.other = _element(a, x, first), _element(b, y, first)
        self.off += len(differing)
        self.max_ulp = max(self.max_ulp, float(distance.max()))


def element_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor's elements in logical order."""
    host = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return host.view(-1).view(torch.uint8).numpy() if host.numel() else np.empty(0, np.uint8)


def _pairs(ours: Any, reference: Any) -> list[tuple[Any, Any]]:
    if isinstance(ours, (list, tuple)) and isinstance(reference, (list, tuple)) and len(ours) == len(reference):
        return list(zip(ours, reference, strict=True))
    return [(ours, reference)]


def _element(tensor: torch.Tensor, data: np.ndarray, index: int) -> str:
    """`0x3f800001 (1.0000001)`."""
    size = tensor.element_size()
    bits = data[index * size : (index + 1) * size][::-1].tobytes().hex()
    return f"0x{bits} ({tensor.detach().cpu().reshape(-1)[index].item()!r})"


def _input_texts(inputs: list[Any]) -> list[str]:
    from torch_densecore.trace.digest import tensor_digest

    texts = []
    for value in inputs:
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor):
                texts.append(f"{_kind(tensor)} {tensor_digest(tensor, 'logical')}")
    return texts


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _ulps(distance: float) -> str:
    return "NaN against a number" if distance == float("inf") else f"{distance:.0f} ulp"


def _count(op: str, found: _Found) -> None:
    with _lock:
        total = _totals.setdefault(op, Totals())
        total.calls += 1
        total.elements += found.elements
        total.elements_off += found.off
        total.max_ulp = max(total.max_ulp, found.max_ulp)
