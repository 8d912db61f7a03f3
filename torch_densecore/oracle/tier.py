"""The `oracle` tier of the device: run an operator of the reference wheel on densecore or CPU tensors.

Slow and exact. Written arguments are written through, results live on the inputs' device, and the random stream goes on
where the reference would leave it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .. import profile as profiles
from .api import CallResult, Oracle
from .schema import Schema

_lock = threading.RLock()
_oracles: dict[str, Oracle] = {}
provenance: dict[str, set[str]] = {}  # modelled functions by operator, for what this process ran
calls: Counter[str] = Counter()
latest = CallResult(None)


def oracle_of(profile: profiles.Profile) -> Oracle:
    """The process's oracle for a profile's release and models, booted at first use."""
    key = f"{profile.torch} {profile.blas['name']} {profile.libm['name']}"
    if key not in _oracles:
        _oracles[key] = Oracle(profile)
    oracle = _oracles[key]
    oracle.num_threads = profile.threads
    return oracle


def run(op_name: str, overload: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Run `aten::name` on tensors of any mix of densecore and CPU devices under the current profile.

    Returns what the operator returns: written arguments are the caller's own tensors, others are new tensors on the
    device of the first tensor argument (the CPU when there is none). Raises torch's error classes for the reference's
    errors, and UnsupportedRoutine for what the oracle cannot run (LAPACK, sparse and quantized tensors).
    """
    name = f"{op_name}.{overload}" if overload and overload != "default" else op_name
    with _lock, torch.no_grad():
        return _run(oracle_of(profiles.current()), name, args, kwargs or {})


def _run(oracle: Oracle, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    flat = tree_flatten((args, kwargs))[0]
    tensors = [value for value in flat if isinstance(value, torch.Tensor)]
    device = tensors[0].device if tensors else torch.device("cpu")
    moved = _Transfer()
    host_args, host_kwargs = tree_map(moved.to_host, (args, kwargs))
    draws = not any(isinstance(value, torch.Generator) for value in flat)
    before = torch.default_generator.get_state()
    if draws:
        oracle.set_rng_state(before)
    result = oracle.run(name, *host_args, **host_kwargs)
    if draws:
        torch.default_generator.set_state(torch.from_numpy(oracle.get_rng_state()))
    _note(name, result)
    moved.write_through(_written(oracle.schema(name), host_args, host_kwargs))
    return tree_map(lambda value: moved.to_device(value, device), result.value)


def _written(schema: Schema, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    values = zip(schema.arguments, schema.bind(args, kwargs), strict=False)
    return [t for argument, value in values if argument.mutated for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def _note(name: str, result: CallResult) -> None:
    global latest
    latest = dataclasses.replace(result, value=None)
    calls[name] += 1
    provenance.setdefault(name, set()).update(result.provenance)


class _Transfer:
    """Host copies of device tensors for one call; shared storages stay shared."""

    def __init__(self) -> None:
        self.storages: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def to_host(self, value: Any) -> Any:
        """The host copy of a device tensor; other values as they are, devices as the CPU."""
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
            return value
        storage = value.untyped_storage()
        key = (storage._cdata, value.dtype)
        if key not in self.storages:
            count = storage.nbytes() // value.element_size()
            self.storages[key] = value.as_strided((count,), (1,), 0).cpu()
        host = self.storages[key].as_strided(value.shape, value.stride(), value.storage_offset())
        self.pairs.append((value, host))
        return host

    def write_through(self, written: list[torch.Tensor]) -> None:
        """Bring what the operator wrote back to the device."""
        for device, host in self.pairs:
            if not any(host is tensor for tensor in written):
                continue
            if device.shape != host.shape:
                device.resize_(host.shape)
            if host.numel():
                device.copy_(host)

    def to_device(self, value: Any, device: torch.device) -> Any:
        """A result on the device: the caller's own tensor where the operator returned a written argument."""
        if not isinstance(value, torch.Tensor):
            return value
        for ours, host in self.pairs:
            if host is value:
                return ours
        return value if device.type == "cpu" else value.to(device)
