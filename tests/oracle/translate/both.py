"""Runs every operator of a torch program twice in one oracle, emulated and translated, and compares the bits.

    python tests/oracle/translate/both.py bfloat16 int64     # torch's operator database in these dtypes, three calls an operator
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from torch_densecore.certify import bits
from torch_densecore.oracle import Oracle, host
from torch_densecore.oracle.mode import host_only
from torch_densecore.oracle.survey import run_op_db
from torch_densecore.oracle.translate import TranslatedCpu


@contextmanager
def fresh_units(cpu: TranslatedCpu, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a translated CPU forget its units and the cache for a while."""
    before = {pc: cpu._slot(pc).value for pc in cpu._units}
    def enter(pc: int, code: int) -> None:
        cpu._slot(pc).value = code
        ctypes.c_int32.from_address(cpu._counters + pc).value = 0  # may be optimised again

    for pc in before:
        enter(pc, cpu._lazy)
    with monkeypatch.context() as patch:
        patch.setattr(cpu._cache, "get", lambda pc: None)
        patch.setattr(cpu._cache, "put", lambda *_: None)
        patch.setattr(cpu, "_units", {})
        try:
            yield
        finally:
            for pc in {*cpu._units, *before}:
                enter(pc, before.get(pc, cpu._lazy))


def differences(ours: Any, theirs: Any) -> int:
    """Elements whose bits differ, over two structures of results; a different structure counts as one."""
    left, right = tree_flatten(ours)[0], tree_flatten(theirs)[0]
    if len(left) != len(right):
        return 1
    total = 0
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            total += 1
        elif isinstance(a, torch.Tensor):
            same = a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
            total += bits.first_difference(0, a.detach(), b.detach())[0] if same else 1
        else:
            total += a != b and not (a != a and b != b)
    return total


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    out = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return out.copy_(value) if value.numel() else out


def run_both(oracle: Oracle, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Outcome emulated and translated: (results, arguments after the call, random state) or the error's text."""
    state = oracle.get_rng_state()
    outcomes = []
    for translated in (False, True):
        mine = tree_map(_copy, (args, kwargs))
        oracle.set_rng_state(state)
        try:
            if translated:
                result = oracle.run(name, *mine[0], **mine[1])
            else:
                with oracle.machine.translated.emulating():
                    result = oracle.run(name, *mine[0], **mine[1])
            random = torch.from_numpy(oracle.get_rng_state())
            outcomes.append((result.value, mine, random, sorted(result.provenance)))
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    return outcomes[0], outcomes[1]


def unset_elements(oracle: Oracle, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Where the large results of an operator are memory that it never wrote (`_ctc_loss` has such): found by filling it twice."""
    state, empty, filled = oracle.get_rng_state(), host.empty, []
    for byte in (0x11, 0x22):

        def fill(*geometry: Any, byte: int = byte) -> torch.Tensor:
            tensor = empty(*geometry)
            ctypes.memset(tensor.data_ptr(), byte, tensor.untyped_storage().nbytes())
            return tensor

        mine = tree_map(_copy, (args, kwargs))
        oracle.set_rng_state(state)
        with mock.patch.object(host, "empty", fill):
            filled.append(_tensors(oracle.run(name, *mine[0], **mine[1]).value))
    return [_bytes(a).ne(_bytes(b)).any(-1) for a, b in zip(*filled, strict=True)]


def _tensors(value: Any) -> list[torch.Tensor]:
    return [item for item in tree_flatten(value)[0] if isinstance(item, torch.Tensor)]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1).view(torch.uint8).view(*tensor.shape, tensor.element_size())


class BothMode(TorchDispatchMode):
    """Compares every operator of a program; the program goes on with the host's results."""

    def __init__(self, oracle: Oracle, max_calls: int) -> None:
        super().__init__()
        self.oracle, self.max_calls = oracle, max_calls
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.off: dict[str, str] = {}
        self.unset: Counter[str] = Counter()  # elements that are left out, since the operator does not write them

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        overload = func._schema.overload_name
        name = func._schema.name + (f".{overload}" if overload else "")
        if not host_only(func, tree_flatten((args, kwargs))[0]) and self.calls[name] < self.max_calls:
            self.calls[name] += 1
            self._compare(name, args, kwargs)
        return func(*args, **kwargs)

    def _compare(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        first, second = run_both(self.oracle, name, args, kwargs)
        if isinstance(first, str) or isinstance(second, str):
            self.errors[name] += 1
            if first != second:
                self.off[name] = f"emulated {str(first)[:200]}, translated {str(second)[:200]}"
        elif differences(second, first):
            unset = unset_elements(self.oracle, name, args, kwargs)
            for results in (first[0], second[0]):
                for tensor, mask in zip(_tensors(results), unset, strict=True):
                    tensor.masked_fill_(mask, 0)
            self.unset[name] += sum(int(mask.sum()) for mask in unset)
            if count := differences(second, first):
                self.off[name] = f"{count} elements"


def operator_database(oracle: Oracle, dtype: str) -> BothMode:
    """The samples of torch's operator database in a dtype."""
    mode = BothMode(oracle, max_calls=3)
    with torch.backends.mkldnn.flags(enabled=False), mode:
        for _ in run_op_db(getattr(torch, dtype)):
            pass
    return mode


def main(dtypes: list[str]) -> None:
    """Print what was compared in each dtype."""
    oracle = Oracle(translate=True)
    for dtype in dtypes:
        mode = operator_database(oracle, dtype)
        calls, errors = sum(mode.calls.values()), sum(mode.errors.values())
        print(f"{dtype}: {len(mode.calls)} overloads, {calls} calls, {errors} of them errors, {len(mode.off)} overloads differ")
        for name, what in sorted(mode.off.items()):
            print(f"  {name}: {what}")
        for name, count in sorted(mode.unset.items()):
            print(f"  {name}: {count} elements are memory that the operator does not write")


if __name__ == "__main__":
    main(sys.argv[1:])
