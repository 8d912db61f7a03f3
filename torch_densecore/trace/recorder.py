"""Records every operator below autograd: `with record("a.dct"): ...` or `densecore record -o a.dct -- python train.py`.

Recording only reads: it takes digests of inputs before and of outputs after each operator, in the thread that runs it.
It needs no compiled extension and works with stock torch >= 2.4 on any device.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from . import environment
from .arguments import scan, template, tensor_meta
from .context import ForwardCalls, ModuleStack, SourceLines, StepCounter
from .digest import bytes_digest, sample_of
from .errors import TraceError
from .format import TraceWriter
from .keep import KeepPolicy, TensorStore
from .operators import OperatorInfo, info_of, tensors_in
from .storages import StorageBook

SAMPLES = 32  # elements of each output that are stored, for the report's estimates
# ways in which a tensor's memory leaves torch and can be written unseen
EXPOSING = ("numpy", "__array__", "__dlpack__")
IGNORED_NAMESPACES = ("profiler",)  # markers without arithmetic


class Recorder(TorchDispatchMode):
    """The dispatch mode that writes the events. Use `record`, which also installs the hooks."""

    def __init__(self, writer: TraceWriter, store: TensorStore, *, samples: int, book: StorageBook) -> None:
        super().__init__()
        self.events = 0
        self.failure: BaseException | None = None
        self._writer = writer
        self._store = store
        self._samples = samples
        self._book = book
        self._sites: dict[Any, int] = {}
        self._lock = threading.RLock()
        self._modules = ModuleStack()
        self._steps = StepCounter(self._step)
        self._lines = SourceLines()
        self._forward = ForwardCalls()
        self._overrides: set[tuple[str, ...]] = set()
        self._unwatch: Callable[[], None] = lambda: None
        self._current_node = torch._C._current_autograd_node
        self._graph_task = torch._C._current_graph_task_id

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._modules.start()
        self._steps.start()
        self._patch()
        self._unwatch = environment.watch_overrides(self._note_overrides)
        self._step(0)

    def stop(self) -> None:
        self._unwatch()
        self._unpatch()
        self._steps.stop()
        self._modules.stop()

    def _step(self, number: int) -> None:
        with _disable_current_modes():  # reading the state is no part of the program
            state = {"torch": _rng_digest(None, "cpu"), "seed": torch.initial_seed()}
        self._writer.write({"step": number, "rng": state})

    def _note_overrides(self, active: list[str]) -> None:
        """A context of overrides has been entered; each set of them is noted once."""
        if tuple(active) not in self._overrides:
            self._overrides.add(tuple(active))
            self._writer.write({"note": f"overrides in force from call {self.events}, in a context: {', '.join(active)}"})

    def _patch(self) -> None:
        """Notices when a tensor's memory is handed out (the methods work as before)."""
        book = self._book
        for name in EXPOSING:
            original = getattr(torch.Tensor, name)

            def noticed(tensor: torch.Tensor, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
                book.exposed(tensor)
                return _original(tensor, *args, **kwargs)

            self._patched[name] = torch.Tensor.__dict__.get(name)
            setattr(torch.Tensor, name, noticed)

    def _unpatch(self) -> None:
        for name, own in self._patched.items():
            if own is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, own)
        self._patched.clear()

    @property
    def _patched(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_patched_methods", {})

    # -- one operator -------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        info = info_of(func)
        if func.namespace in IGNORED_NAMESPACES:
            return func(*args, **kwargs)
        with self._lock:
            call = self._before(info, args, kwargs)
        result = func(*args, **kwargs)
        with self._lock:
            self._after(info, call, args, kwargs, result)
        return result

    def _before(self, info: OperatorInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        tensors: list[torch.Tensor] = []
        key: list[Any] = [info.name]
        scan(args, tensors, key)
        for name, value in kwargs.items():
            key.append(name)
            scan(value, tensors, key)
        module, phase, source, node, param = self._where()
        key += (module, phase, source, node, param)
        digest = self._book.digest
        inputs = [digest(tensor, trusted=False) for tensor in tensors]
        if info.overwritten:
            gone = {id(tensor) for tensor in info.select(info.overwritten, args, kwargs)}
            inputs = [None if id(t) in gone else d for t, d in zip(tensors, inputs, strict=True)]
        call = _Call(key, tensors, inputs, (module, phase, source, node, param))
        if info.random:
            call.generator = _generator_of(args, kwargs)
            call.device = _device_of(tensors, kwargs)
            call.rng = _rng_digest(call.generator, call.device)
        if self._store.active:
            self._store.before(self.events, info, call, args, kwargs, self._steps.step)
        return call

    def _after(self, info: OperatorInfo, call: _Call, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        outputs = list(tensors_in(result))
        if info.written:
            written = info.select(info.written, args, kwargs)
            for tensor in written:
                self._book.written(tensor)
            seen = {id(tensor) for tensor in outputs}
            outputs += [tensor for tensor in written if id(tensor) not in seen]
        if not info.known:  # a custom operator may write where its schema does not say so
            for tensor in call.tensors:
                self._book.written(tensor)
        if info.undefined:
            for tensor in outputs:
                self._book.undefined(tensor)
        digests = [self._book.digest(tensor, trusted=not info.foreign) for tensor in outputs]
        if info.view:
            samples = [None] * len(outputs)
        else:
            samples = [d and sample_of(t, self._samples) for t, d in zip(outputs, digests, strict=True)]
        self._write(info, call, args, kwargs, outputs, digests, samples)

    def _write(
        self, info: OperatorInfo, call: _Call, args: Any, kwargs: dict[str, Any],
        outputs: list[torch.Tensor], digests: list[str | None], samples: list[str | None],
    ) -> None:  # fmt: skip
        call.key += [(t.dtype, t.shape, t.stride() if t.layout is torch.strided else None) for t in outputs]
        key = tuple(call.key)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = len(self._sites)
            self._writer.write(_site_line(site, info, call, args, kwargs, outputs))
        rng = "null"
        if call.rng is not None:
            rng = f'["{call.rng}","{_rng_digest(call.generator, call.device)}"]'
        index = self.events
        self.events += 1
        self._writer.write_text(
            f"[{index},{site},{_texts(call.inputs)},{_texts(digests)},{_texts(samples)},{rng}]"
        )
        if self._store.active:
            self._store.after(index, info, call, outputs, digests, self._steps.step)

    def _where(self) -> tuple[str, str, str, str, str]:
        """(module path, phase, source line, autograd node, parameter)."""
        if self._graph_task() == -1:
            module = self._modules.current
            source = self._lines.current(3)
            self._forward.note(module, source)
            return module, "optimizer" if self._steps.optimizing else "forward", source, "", ""
        node = self._current_node()
        if node is None:  # gradients of several uses are being added up
            return "", "backward", "", "sum of gradients", ""
        name = node.name()
        if name == "torch::autograd::AccumulateGrad":
            return "", "backward", "", "AccumulateGrad", self._modules.param_name(node.variable)
        if self._modules.path:  # a forward that is computed again (checkpoint)
            source = self._lines.current(3)
            self._forward.note(self._modules.current, source)
            return self._modules.current, "backward", source, name, ""
        module, source = self._forward.of(node)
        return module, "backward", source, name, ""


class _Call:
    """What is known of an operator call before it has run."""

    __slots__ = ("key", "tensors", "inputs", "where", "rng", "generator", "device")

    def __init__(self, key: list[Any], tensors: list[torch.Tensor], inputs: list[str | None], where: tuple) -> None:
        self.key = key
        self.tensors = tensors
        self.inputs = inputs
        self.where = where
        self.rng: str | None = None
        self.generator: torch.Generator | None = None
        self.device = "cpu"


@contextlib.contextmanager
def record(
    path: str | os.PathLike[str],
    *,
    keep: str | list[str] | None = None,
    keep_limit: int = 256 << 20,
    against: str | os.PathLike[str] | None = None,
    samples: int = SAMPLES,
    reuse_digests: bool = True,
    logical_order: bool = False,
    program: list[str] | None = None,
    script: str | None = None,
) -> Iterator[Recorder]:
    """Records the operators that run inside the block (in this thread and its backward passes) to `path`.

    keep: which tensors to store, as `--keep-tensors` takes it: "ops=aten::mm,aten::sum*", "steps=0..2", "events=12,40"
    or "first-divergence" (needs `against`, a trace to compare with while running). keep_limit: bytes of tensors in
    all; what does not fit is noted in the file. samples: elements of every output that are stored for the report.
    reuse_digests: False hashes every input of every operator anew (see `storages`). logical_order: True makes
    digests independent of the memory layout, at the price of copies (see `digest`).

    Raises `TraceError` when the file cannot be written or `keep` is not understood. An exception of the block passes
    through; the file then ends with it.
    """
    policy = KeepPolicy.parse(keep, against)
    order = "logical" if logical_order else "memory"
    writer = TraceWriter(expand_rank(path), samples, order)
    writer.write({"environment": environment.collect(script, program)})
    store = TensorStore(policy, writer, keep_limit)
    book = StorageBook(order=order, reuse=reuse_digests)
    recorder = Recorder(writer, store, samples=samples, book=book)
    status: dict[str, Any] = {"status": "complete"}
    try:
        recorder.start()
        with recorder:
            yield recorder
    except BaseException as error:
        if not (isinstance(error, SystemExit) and error.code in (None, 0)):
            status = {"status": "exception", "error": f"{type(error).__name__}: {error}"[:500]}
        raise
    finally:
        recorder.stop()
        store.close()
        writer.write({"end": {**status, "events": recorder.events}})
        writer.close()


def expand_rank(path: str | os.PathLike[str]) -> Path:
    """`run.{rank}.dct` with the process's rank, as torchrun sets it, so that processes do not share a file."""
    text = os.fspath(path)
    if "{rank}" in text:
        text = text.replace("{rank}", os.environ.get("RANK", "0"))
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TraceError(f"{text}: several processes would write one file; put {{rank}} into the name")
    return Path(text)


def _texts(values: list[str | None]) -> str:
    """JSON list of digests or samples (their characters need no escapes)."""
    if not values:
        return "[]"
    return "[" + ",".join("null" if value is None else f'"{value}"' for value in values) + "]"


def _site_line(
    site: int, info: OperatorInfo, call: _Call, args: Any, kwargs: dict[str, Any], outputs: list[torch.Tensor]
) -> dict[str, Any]:
    module, phase, source, node, param = call.where
    counter = [0]
    return {
        "site": site,
        "op": info.name,
        "module": module,
        "phase": phase,
        "source": source,
        "node": node,
        "param": param,
        "args": [template(args, counter), {name: template(value, counter) for name, value in kwargs.items()}],
        "inputs": [tensor_meta(tensor) for tensor in call.tensors],
        "outputs": [tensor_meta(tensor) for tensor in outputs],
    }


def _generator_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Generator | None:
    for value in (*kwargs.values(), *args):
        if isinstance(value, torch.Generator):
            return value
    return None


def _device_of(tensors: list[torch.Tensor], kwargs: dict[str, Any]) -> str:
    if tensors:
        return tensors[0].device.type
    device = kwargs.get("device")
    return torch.device(device).type if device is not None else "cpu"


def _rng_digest(generator: torch.Generator | None, device: str) -> str:
    """Digest of the state of a generator, by default that of the device."""
    if generator is not None:
        state = generator.get_state()
    elif device == "cpu":
        state = torch.default_generator.get_state()
    else:
        module = getattr(torch, device, None)
        if module is None or not hasattr(module, "get_rng_state"):
            return bytes_digest(b"")
        state = module.get_rng_state()
    return bytes_digest(state.numpy().tobytes())
