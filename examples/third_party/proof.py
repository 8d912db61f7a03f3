"""Runs a program on `cpu` with emulation and on `densecore`, records its ops, and asks the reference wheel for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from programs import Program
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import torch_densecore
from torch_densecore import _C
from torch_densecore.certify import Call, bits, certificates, compare
from torch_densecore.certify.comparison import run_on, transfer
from torch_densecore.oracle.mode import host_only

SEED = 7


def describe(value: Any) -> Any:
    """What makes two calls alike: sizes, strides and dtype of a tensor, the value of anything else."""
    if isinstance(value, Tensor):
        return (value.dtype, tuple(value.shape), tuple(value.stride()))
    return value if isinstance(value, int | float | str | bool | None | torch.dtype) else str(value)


class Recorder(TorchDispatchMode):
    """Keeps the inputs of the first calls of each kind, `limit` kinds an op; counts all calls. Metadata ops are left out."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.counts: dict[str, int] = {}
        self.calls: dict[str, dict[Any, Call]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        flat = tree_flatten((args, kwargs))[0]
        if not host_only(func, flat):
            name = func.name()
            self.counts[name] = self.counts.get(name, 0) + 1
            kinds = self.calls.setdefault(name, {})
            kind = tuple(describe(value) for value in flat)
            if kind not in kinds and len(kinds) < self.limit:
                saved_args, saved_kwargs = transfer((args, kwargs), "cpu")
                kinds[kind] = Call(saved_args, saved_kwargs)
        return func(*args, **kwargs)


@dataclass
class Proof:
    """What came of a program. `blocked`: the error of strict mode. `off`: elements that differ between the devices, of `elements`.

    `asked`, `wheel_elements`, `wheel_off`: recorded calls that the reference wheel computed too. `unasked`: ops it cannot run.
    """

    name: str
    blocked: str = ""
    tensors: int = 0
    elements: int = 0
    off: int = 0
    ops: dict[str, str] = field(default_factory=dict)
    certified: set[str] = field(default_factory=set)
    asked: int = 0
    wheel_elements: int = 0
    wheel_off: int = 0
    modelled: set[str] = field(default_factory=set)
    unasked: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing differs."""
        return not (self.off or self.wheel_off or self.findings)


def tiers(names: list[str]) -> dict[str, str]:
    """Who serves each op: `kernel` (ours), `exact` (the host's, certified), `composed` of such by torch; others raise."""
    own = {name for name, _ in _C.own_kernels()}
    served = dict(_C.device_ops())
    return {name: "kernel" if name in own else "exact" if name in served else "composed" for name in names}


def outcome(program: Program, device: str) -> list[Tensor]:
    """The program's results on a device, on the CPU and detached."""
    torch.manual_seed(SEED)
    return [t.detach().cpu() for t in program.run(device)]


def prove(program: Program, oracle: bool, limit: int) -> Proof:
    """Both devices in strict mode; with `oracle`, the recorded calls in the reference wheel as well."""
    proof = Proof(program.name)
    recorder = Recorder(limit)
    try:
        with torch_densecore.uncertified("error"), torch_densecore.emulate_cpu():
            ours, theirs = outcome(program, "cpu"), outcome(program, "densecore")
            with recorder:  # apart: who holds a tensor may decide whether torch computes in place
                outcome(program, "cpu")
    except torch_densecore.UncertifiedOpError as error:
        proof.blocked = str(error).partition(" (profile")[0].replace(" has no certified kernel for", ":")
        return proof
    proof.ops = tiers(list(recorder.counts))
    proof.certified = {name for name in proof.ops if certificates.load(name)}
    proof.tensors = len(ours)
    for a, b in zip(ours, theirs, strict=True):
        proof.elements += a.numel()
        proof.off += int(bits.unequal(a, b).sum())
    if oracle:
        ask(proof, recorder)
    return proof


def emulated() -> Callable[..., Any]:
    """A runner for `compare`: torch's own op on CPU tensors, emulated."""
    run = run_on("cpu")

    def runner(op: str, call: Call) -> Any:
        with torch_densecore.emulate_cpu():
            return run(op, call)[0]

    return runner


def ask(proof: Proof, recorder: Recorder) -> None:
    """Compares every recorded call with the reference wheel."""
    for name, kinds in recorder.calls.items():
        report = compare(name, kinds.values(), run=emulated())
        refused = [text for text in report.failures if text.startswith("the oracle cannot run")]
        if refused:
            proof.unasked[name] = refused[0]
        proof.asked += report.calls - len(refused)
        proof.wheel_elements += report.elements
        proof.wheel_off += report.off
        proof.modelled |= report.provenance
        if report.off or len(refused) < len(report.failures):
            proof.findings.append(str(report))
