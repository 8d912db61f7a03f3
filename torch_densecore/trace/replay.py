"""Makes recorded calls again, from their stored inputs: here, on another device, or under other settings of the host.

Every call gets the inputs of the recorded run, so that a difference of one call is not inherited by the next:
`densecore replay a.dct -o here.dct` and then `densecore diff a.dct here.dct` finds **all** origins, not only the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import environment
from .arguments import rebuild
from .digest import sample_of, tensor_digest
from .errors import TraceError
from .format import Event, Site, TraceReader, TraceWriter
from .keep import pack, unpack
from .operators import info_of, tensors_in


@dataclass
class Call:
    """A recorded call with its tensors. `outputs` may be empty when only the other side stored tensors."""

    event: Event
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    rng: torch.Tensor | None

    @property
    def site(self) -> Site:
        return self.event.site


def load_calls(path: str | os.PathLike[str], wanted: set[int] | None = None) -> dict[int, Call]:
    """The calls of a trace whose tensors are stored, by event index; `wanted` limits them."""
    blobs = TraceReader(path).tensors(wanted)
    reader = TraceReader(path)
    return {event.index: _call(event, unpack(blobs[event.index])) for event in reader.events() if event.index in blobs}


def _call(event: Event, tensors: dict[str, torch.Tensor]) -> Call:
    site = event.site
    inputs = [_as_recorded(tensors[f"in.{i}"], meta) for i, meta in enumerate(site.inputs)]
    outputs = [_as_recorded(tensors[f"out.{i}"], meta) for i, meta in enumerate(site.outputs)]
    return Call(event, inputs, outputs, tensors.get("rng"))


def _as_recorded(tensor: torch.Tensor, meta: dict[str, Any]) -> torch.Tensor:
    """The stored (contiguous) tensor with the recorded strides."""
    if meta["dtype"].startswith("complex"):
        tensor = torch.view_as_complex(tensor)
    stride = meta["stride"]
    if stride is None or tuple(stride) == tensor.stride() or not tensor.numel():
        return tensor
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, stride, strict=True))
    placed = torch.empty(span, dtype=tensor.dtype).as_strided(tensor.shape, stride)
    if 0 in stride:  # broadcast: every place is written with the same value
        for index in [i for i, step in enumerate(stride) if step == 0]:
            tensor = tensor.narrow(index, 0, 1)
        target = placed
        for index in [i for i, step in enumerate(stride) if step == 0]:
            target = target.narrow(index, 0, 1)
        target.copy_(tensor)
        return placed
    return placed.copy_(tensor)


def run(call: Call, device: str = "cpu") -> list[torch.Tensor]:
    """The call's outputs, as a recording lists them: results, then written arguments."""
    overload = find_overload(call.site.op)
    info = info_of(overload)
    inputs = [_on(tensor, device) for tensor in call.inputs]
    args, kwargs = call.site.args
    args = [rebuild(value, inputs, device) for value in args]
    kwargs = {name: rebuild(value, inputs, device) for name, value in kwargs.items()}
    if call.rng is not None:
        torch.set_rng_state(call.rng)
    with torch.no_grad():
        result = overload(*args, **kwargs)
    outputs = list(tensors_in(result))
    seen = {id(tensor) for tensor in outputs}
    written = info.select(info.written, tuple(args), kwargs)
    return outputs + [tensor for tensor in written if id(tensor) not in seen]


def find_overload(name: str) -> Any:
    """`aten::add.Tensor` -> torch.ops.aten.add.Tensor. Raises `TraceError` when this torch has no such operator."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except AttributeError:
        raise TraceError(f"torch {torch.__version__} has no operator {name}") from None


def replay(source: str | os.PathLike[str], output: str | os.PathLike[str], device: str = "cpu") -> tuple[int, int]:
    """Writes a trace of the stored calls made again; returns (calls made, calls that failed).

    The new trace has the events' old numbers, so that both traces align.
    """
    calls = load_calls(source)
    if not calls:
        raise TraceError(f"{source} holds no tensors: record it with --keep-tensors ops=... or steps=...")
    reader = TraceReader(source)
    order = reader.header.get("order", "memory")
    writer = TraceWriter(output, reader.header.get("samples", 0), order)
    program = reader.environment.get("program", {})
    writer.write({"environment": {**environment.collect(), "program": program, "replay": {"device": device}}})
    failed, sites = 0, set()
    for item in reader.lines():
        if not isinstance(item, Event):
            if "step" in item:  # steps are where they were, so that both traces align
                writer.write(item)
            continue
        call = calls.get(item.index)
        if call is None:
            continue
        try:
            outputs = run(call, device)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            failed += 1
            writer.write({"note": f"event {item.index} ({item.site.op}) failed: {error}"[:300]})
            continue
        _write(writer, call, outputs, order, reader.header.get("samples", 0), sites)
    writer.write({"end": {"status": "complete", "events": len(calls) - failed}})
    writer.close()
    return len(calls), failed


def _write(writer: TraceWriter, call: Call, outputs: list[torch.Tensor], order: str, samples: int, sites: set) -> None:
    site, event = call.site, call.event
    if site.id not in sites:
        sites.add(site.id)
        names = ("op", "module", "phase", "source", "node", "param", "args", "inputs", "outputs")
        writer.write({"site": site.id, **{name: getattr(site, name) for name in names}})
    digests = [tensor_digest(tensor, order) for tensor in outputs]
    if digests != event.outputs:  # for explain: what it was computed from and what came out
        tensors = {f"in.{i}": t for i, t in enumerate(call.inputs)} | {f"out.{i}": t for i, t in enumerate(outputs)}
        changed = pack(tensors | ({"rng": call.rng} if call.rng is not None else {}))
    else:
        changed = None
    sampled = [sample_of(tensor, samples) for tensor in outputs]
    writer.write([event.index, site.id, event.inputs, digests, sampled, event.rng])
    if changed is not None:
        writer.write_tensors(event.index, changed)


# -- this machine's torch under other settings ----------------------------------------------------------------------


def host_variants(path: str, wanted: set[int], threads: Iterable[int]) -> dict[str, dict[int, list[str | None]]]:
    """Output digests of stored calls by every code path of this machine: {"AVX2, 2 threads": {event: digests}}."""
    found: dict[str, dict[int, list[str | None]]] = {}
    for capability in capabilities():
        for name, digests in _run_variant(path, wanted, capability, sorted(set(threads))).items():
            found[name] = {int(event): values for event, values in digests.items()}
    return found


def capabilities() -> list[str]:
    """Values of ATEN_CPU_CAPABILITY that this machine can run; [""] where there is no choice."""
    best = environment.cpu_capability().lower()
    levels = ["default", "avx2", "avx512"]
    return levels[: levels.index(best) + 1] if best in levels else [""]


def _run_variant(path: str, wanted: set[int], capability: str, threads: list[int]) -> dict[str, Any]:
    variables = {**os.environ, **({"ATEN_CPU_CAPABILITY": capability} if capability else {})}
    with tempfile.TemporaryDirectory() as folder:
        request, answer = Path(folder, "request.json"), Path(folder, "answer.json")
        request.write_text(json.dumps({"path": str(path), "wanted": sorted(wanted), "threads": threads}))
        command = [sys.executable, "-m", __name__, str(request), str(answer)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise TraceError(f"replaying with {capability or 'this CPU'} failed: {done.stderr.strip()[-300:]}")
        return json.loads(answer.read_text())


def _variant_main(request: str, answer: str) -> None:
    job = json.loads(Path(request).read_text())
    calls = load_calls(job["path"], set(job["wanted"]))
    order = TraceReader(job["path"]).header.get("order", "memory")
    results: dict[str, dict[int, list[str | None]]] = {}
    for count in job["threads"]:
        torch.set_num_threads(count)
        name = f"{environment.cpu_capability()}, {count} thread{'s' if count > 1 else ''}"
        results[name] = {}
        for index, call in calls.items():
            try:
                results[name][index] = [tensor_digest(tensor, order) for tensor in run(call)]
            except (RuntimeError, TypeError, ValueError, IndexError):
                continue
    Path(answer).write_text(json.dumps(results))


def _on(tensor: torch.Tensor, device: str) -> torch.Tensor:
    return tensor.clone() if device == "cpu" else tensor.to(device)


if __name__ == "__main__":
    _variant_main(*sys.argv[1:])
