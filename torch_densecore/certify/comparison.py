"""Run our operator and the reference on the same inputs and report the first element that differs, in hex."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from .. import profile as profiles
from . import bits
from .bits import Difference

if TYPE_CHECKING:  # who compares with the CPU of a Mac need not have the oracle's extra
    from ..oracle import Oracle

Runner = Callable[..., Any]
DEVICE = "densecore"


@dataclass(frozen=True)
class Call:
    """One set of arguments for an operator: CPU tensors of any stride, and Python values.

    threads: intra-op threads of the profile for this call (None: the current profile's). seed: state of the default
    generators before the call, for random operators.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0

    def __str__(self) -> str:
        parts = [brief(a) for a in self.args] + [f"{k}={brief(v)}" for k, v in self.kwargs.items()]
        return f"({', '.join(parts)})" + (f", {self.threads} threads" if self.threads else "")


def brief(value: Any) -> str:
    """Short text of an argument: dtype, sizes, and strides where they are not the default."""
    if isinstance(value, torch.Tensor):
        layout = "" if value.is_contiguous() else f" strides {tuple(value.stride())}"
        offset = f" offset {value.storage_offset()}" if value.storage_offset() else ""
        return f"{str(value.dtype)[6:]}{list(value.shape)}{layout}{offset}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(brief(v) for v in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"[{shown}]"
    return repr(value)


@dataclass
class Report:
    """Outcome of a comparison. `off` must be 0; `failures` are calls where only one side raised or shapes disagree."""

    op: str
    calls: int = 0
    elements: int = 0
    off: int = 0
    max_ulp: int = 0
    provenance: set[str] = field(default_factory=set)
    pure_calls: int = 0
    first: Difference | None = None
    first_call: Call | None = None
    first_inputs: str = ""
    failures: list[str] = field(default_factory=list)
    both_raised: int = 0

    @property
    def ok(self) -> bool:
        """Whether every element of every call has the reference's bits."""
        return self.off == 0 and not self.failures

    def check(self) -> Report:
        """Raise AssertionError with the whole story unless `ok`; also when nothing was compared."""
        if not self.ok:
            raise AssertionError(str(self))
        if not self.calls:
            raise AssertionError(f"{self.op}: no call was compared")
        return self

    def __str__(self) -> str:
        names = ", ".join(sorted(self.provenance)) or "nothing modelled"
        lines = [f"{self.op}: {self.off} of {self.elements} elements differ in {self.calls} calls; reference used {names}"]
        if self.first is not None:
            lines += [f"  first: {self.first}", f"  call: {self.first_call}"]
            if self.first_inputs:
                lines.append(f"  inputs there: {self.first_inputs}")
        lines += [f"  {text}" for text in self.failures[:5]]
        if len(self.failures) > 5:
            lines.append(f"  and {len(self.failures) - 5} more calls that failed")
        return "\n".join(lines)


@lru_cache(maxsize=4)
def oracle_for(release: str) -> Oracle:
    """The oracle of a torch release, booted once per process."""
    from ..oracle import Oracle

    return Oracle(profiles.load(release))


def transfer(value: Any, device: str) -> Any:
    """Copy of every tensor in `value` on `device`, with the same strides, offsets and shared storages."""
    seen: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def move(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        key = (tensor.untyped_storage()._cdata, tensor.dtype)
        if key not in seen:
            flat = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
            seen[key] = flat.to(device, copy=True)
        return seen[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    return tree_map(move, value)


def run_on(device: str = DEVICE) -> Runner:
    """A runner that calls torch's own operator on tensors of `device` and brings the results back."""

    def run(op: str, call: Call) -> tuple[Any, ...]:
        packet = resolve(op)
        if device == DEVICE:
            _accept_inputs()
        args, kwargs = transfer((call.args, call.kwargs), device)
        if not _has_tensor(args, kwargs) and any(a.name == "device" for a in packet._schema.arguments):
            kwargs["device"] = device
        if call.seed is not None:
            torch.manual_seed(call.seed)
        result = packet(*args, **kwargs)
        return tree_map(_to_cpu, (result, _written(packet, args, kwargs)))

    return run


def _has_tensor(*arguments: Any) -> bool:
    return any(isinstance(value, torch.Tensor) for value in tree_flatten(arguments)[0])


def _accept_inputs() -> None:
    """Whatever was drawn on the host to make the inputs, both sides get the same bits."""
    import torch_densecore

    torch_densecore.accept_cpu_draws()


def _written(packet: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments that the operator writes but does not return; they are results too."""
    schema = packet._schema
    returned = {name for r in schema.returns if r.alias_info is not None for name in r.alias_info.before_set}
    given = {**dict(zip((a.name for a in schema.arguments), args, strict=False)), **kwargs}
    return [
        given[a.name]
        for a in schema.arguments
        if a.alias_info is not None and a.alias_info.is_write and a.name in given and not a.alias_info.before_set & returned
    ]


def _to_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value


def resolve(op: str) -> Any:
    """The torch.ops overload of `aten::name.overload` (`.default` may be left out)."""
    namespace, _, rest = op.partition("::")
    name, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except AttributeError as error:
        raise KeyError(f"torch {torch.__version__} has no operator {op}") from error


def outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What a call of an operator gives, or the exception that it raises."""
    try:
        return function(), None
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return None, error


def reference_results(oracle: Oracle, op: str, call: Call) -> tuple[Any, Any]:
    """The oracle's result, and what a runner would give: the value and the written arguments."""
    args, kwargs = transfer((call.args, call.kwargs), "cpu")
    oracle.manual_seed(call.seed)
    result = oracle.run(op, *args, **kwargs)
    return result, (result.value, _written(resolve(op), args, kwargs))


def compare(
    op: str,
    calls: Iterable[Call | tuple[Any, ...]],
    *,
    run: Runner | str = DEVICE,
    oracle: Oracle | None = None,
    profile: profiles.Profile | str | None = None,
) -> Report:
    """Run `op` on every call's inputs through `run` and through the reference wheel, and compare all bits.

    op: `aten::name.overload`. calls: `Call`s, or plain tuples of arguments (see `inputs` for generators).
    run: a device name, or a function `(op, call) -> results` to judge something that is not a device yet; it returns
    what the operator returns. Written arguments of in-place and out variants are compared too when `run` is a device.
    Both sides raising counts as agreement. Results must also agree in shape and dtype.
    """
    base = profiles.load(profile) if profile is not None else profiles.current()
    oracle = oracle or oracle_for(base.torch)
    device = isinstance(run, str)
    runner = run_on(run) if isinstance(run, str) else run
    report = Report(op)
    for item in calls:
        call = item if isinstance(item, Call) else Call(tuple(item))
        with profiles.use(base, threads=call.threads or base.threads):
            oracle.num_threads = call.threads or base.threads
            _compare_one(report, oracle, op, call, runner, device)
    return report


def _compare_one(report: Report, oracle: Oracle, op: str, call: Call, runner: Runner, device: bool) -> None:
    report.calls += 1
    expected, reference_error = outcome(lambda: reference_results(oracle, op, call))
    if isinstance(reference_error, NotImplementedError) and not hasattr(reference_error, "kind"):  # an operator's own: TorchError
        report.failures.append(f"the oracle cannot run {op}{call}: {reference_error}")
        return
    got, our_error = outcome(lambda: runner(op, call))
    if reference_error is not None or our_error is not None:
        if reference_error is not None and our_error is not None:
            report.both_raised += 1
        else:
            side = "the reference" if reference_error is not None else "ours"
            report.failures.append(f"only {side} raised for {call}: {reference_error or our_error}")
        return
    result, reference = expected
    report.provenance |= result.provenance
    report.pure_calls += result.pure
    theirs = reference if device else reference[0]
    _compare_values(report, call, tree_flatten(got)[0], tree_flatten(theirs)[0])


def _compare_values(report: Report, call: Call, ours: list[Any], theirs: list[Any]) -> None:
    if len(ours) != len(theirs):
        report.failures.append(f"{len(ours)} results, the reference has {len(theirs)}, for {call}")
        return
    for output, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            report.elements += a is not None
            if a is not b and not (a == b or (a != a and b != b)):
                report.failures.append(f"output {output} is {a!r}, the reference gives {b!r}, for {call}")
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            report.failures.append(f"output {output} is {brief(a)}, the reference gives {brief(b)}, for {call}")
            continue
        report.elements += a.numel()
        count, first = bits.first_difference(output, a, b)
        if first is None:
            continue
        report.off += count
        if first.ulp is not None:
            report.max_ulp = max(report.max_ulp, int(bits.distance(a, b).max()))
        if report.first is None:
            report.first, report.first_call = first, call
            report.first_inputs = _inputs_at(call, first.index, a.shape)


def _inputs_at(call: Call, index: tuple[int, ...], shape: torch.Size) -> str:
    """Values of the arguments that have the result's shape, at the differing element (an elementwise operator's inputs)."""
    shown = []
    for value in tree_flatten((call.args, call.kwargs))[0]:
        if isinstance(value, torch.Tensor) and value.shape == shape:
            element = value[index].reshape(1)
            shown.append(f"{bits.hexadecimal(element)} ({element.item()!r})")
    return ", ".join(shown)
