"""Which operators' tensors are stored in the trace, and storing them (safetensors, under a size cap)."""

from __future__ import annotations

import fnmatch
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .errors import TraceError
from .format import Event, TraceReader, TraceWriter
from .operators import OperatorInfo

if TYPE_CHECKING:
    from .recorder import _Call

HELP = "first-divergence, ops=PATTERN[,PATTERN], steps=FIRST[..LAST], events=N[,N]"
LOOKAHEAD = 2000  # events of the other trace searched for the operator that runs now


@dataclass
class KeepPolicy:
    """Several conditions narrow the choice: ops=... and steps=... keeps those operators in those steps."""

    patterns: list[str] = field(default_factory=list)
    steps: range | None = None
    events: set[int] = field(default_factory=set)
    against: TraceReader | None = None

    @staticmethod
    def parse(keep: str | list[str] | None, against: str | os.PathLike[str] | None) -> KeepPolicy:
        policy = KeepPolicy()
        for text in [keep] if isinstance(keep, str) else keep or []:
            name, _, value = text.partition("=")
            if name == "first-divergence" and not value:
                if against is None:
                    raise TraceError("first-divergence needs the trace to compare with: --against OTHER.dct")
                policy.against = TraceReader(against)
            elif name == "ops" and value:
                policy.patterns += value.split(",")
            elif name == "steps" and value:
                policy.steps = _range(value)
            elif name == "events" and value:
                policy.events |= {_number(word) for word in value.split(",")}
            else:
                raise TraceError(f"cannot keep tensors by {text!r}; use {HELP}")
        return policy

    @property
    def empty(self) -> bool:
        return not (self.patterns or self.steps is not None or self.events or self.against)

    def selects(self, index: int, info: OperatorInfo, step: int) -> bool:
        """Whether the tensors of this call are kept whatever their values are."""
        if self.against is not None or self.empty:
            return False
        if self.events and index not in self.events:
            return False
        if self.steps is not None and step not in self.steps:
            return False
        return not self.patterns or any(
            fnmatch.fnmatchcase(info.name, p) or fnmatch.fnmatchcase(info.name, f"{p}.*") for p in self.patterns
        )


class TensorStore:
    """Keeps the chosen calls' inputs and outputs."""

    def __init__(self, policy: KeepPolicy, writer: TraceWriter, limit: int) -> None:
        self.active = not policy.empty
        self.stored = 0
        self.dropped = 0
        self._policy = policy
        self._writer = writer
        self._limit = limit
        self._saved: list[torch.Tensor] | None = None
        self._rng: torch.Tensor | None = None
        self._other = _Follower(policy.against) if policy.against is not None else None
        self._kept_sites: set[Any] = set()

    def before(
        self, index: int, info: OperatorInfo, call: _Call, args: Any, kwargs: dict[str, Any], step: int
    ) -> None:
        """Copies what the operator is about to overwrite."""
        self._saved = None
        if self._other is None and not self._policy.selects(index, info, step):
            return
        changed = {id(tensor) for tensor in info.select(info.written, args, kwargs)}
        self._saved = [tensor.clone() if id(tensor) in changed else tensor for tensor in call.tensors]
        self._rng = _rng_state(call) if info.random else None

    def after(
        self, index: int, info: OperatorInfo, call: _Call, outputs: list[torch.Tensor], digests: list[str | None],
        step: int,
    ) -> None:  # fmt: skip
        """Stores the call's tensors if they were chosen and fit."""
        if self._saved is None:
            return
        if self._other is not None and not self._diverged(info, call, digests):
            return
        tensors = {f"in.{i}": t for i, t in enumerate(self._saved)} | {f"out.{i}": t for i, t in enumerate(outputs)}
        if self._rng is not None:
            tensors["rng"] = self._rng
        self._saved = None
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if self.stored + size > self._limit:
            self.dropped += 1
            return
        self.stored += size
        self._writer.write_tensors(index, pack(tensors))

    def close(self) -> None:
        if self.dropped:
            self._writer.write(
                {"note": f"the tensors of {self.dropped} operators did not fit under {self._limit >> 20} MiB"}
            )

    def _diverged(self, info: OperatorInfo, call: _Call, digests: list[str | None]) -> bool:
        """An origin: the other run made this call with the same inputs and got other outputs. One per kind of call."""
        other = self._other.find(info, call)
        if other is None or other.inputs != call.inputs or other.outputs == digests:
            return False
        kind = (info.name, call.where[:2], tuple(call.key[:8]))
        if kind in self._kept_sites:
            return False
        self._kept_sites.add(kind)
        return True


class _Follower:
    """Walks along another trace while the program runs."""

    def __init__(self, reader: TraceReader) -> None:
        self._events = reader.events()
        self._waiting: list[Event] = []

    def find(self, info: OperatorInfo, call: _Call) -> Event | None:
        """The next event of the other trace with the same operator, module, phase and shapes."""
        module, phase = call.where[:2]
        shapes = [list(tensor.shape) for tensor in call.tensors]
        for position in range(LOOKAHEAD):
            if position == len(self._waiting):
                event = next(self._events, None)
                if event is None:
                    return None
                self._waiting.append(event)
            event = self._waiting[position]
            site = event.site
            if (site.op, site.module, site.phase) == (info.name, module, phase) and shapes == [
                meta["shape"] for meta in site.inputs
            ]:
                del self._waiting[: position + 1]
                return event
        return None


def pack(tensors: dict[str, torch.Tensor]) -> bytes:
    """A safetensors file with the tensors in logical order."""
    import safetensors.torch

    host = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().clone()
        host[name] = torch.view_as_real(value) if value.is_complex() else value
    return safetensors.torch.save(host)


def unpack(blob: bytes) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file; never executes anything."""
    import safetensors
    import safetensors.torch

    try:
        return safetensors.torch.load(blob)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise TraceError(f"the stored tensors are damaged: {error}") from error


def _rng_state(call: _Call) -> torch.Tensor | None:
    if call.generator is not None:
        return call.generator.get_state()
    return torch.default_generator.get_state() if call.device == "cpu" else None


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    start = _number(first)
    return range(start, (_number(last) if dots else start) + 1)


def _number(text: str) -> int:
    if not text.strip().isdigit():
        raise TraceError(f"{text!r} is not a number; tensors are kept by {HELP}")
    return int(text)
