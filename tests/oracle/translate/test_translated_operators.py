"""Operators of the wheel, translated against emulated in one machine, and what happens when something goes wrong."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch
from both import differences, fresh_units, operator_database, run_both

from torch_densecore.oracle.commands import translation_report
from torch_densecore.oracle.translate.link import LinkError

pytestmark = pytest.mark.oracle


def _tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


CASES = {
    "aten::exp": ((_tensor(1003),), {}),
    "aten::gelu": ((_tensor(37, 11).t(),), {}),
    "aten::_softmax": ((_tensor(5, 131), 1, False), {}),
    "aten::native_layer_norm": ((_tensor(9, 33), [33], _tensor(33), _tensor(33), 1e-5), {}),
    "aten::sum.dim_IntList": ((_tensor(13, 517), [1]), {}),
    "aten::sort": ((_tensor(501),), {}),
    "aten::add_.Tensor": ((_tensor(4, 9), _tensor(9)), {"alpha": 0.3}),
    "aten::mm": ((_tensor(17, 9), _tensor(9, 5)), {}),
    "aten::normal_": ((torch.empty(100),), {}),
    "aten::index_put": ((_tensor(6, 4), [torch.tensor([1, 5])], _tensor(2, 4)), {}),
    "aten::_to_copy": ((_tensor(77) * 1e10,), {"dtype": torch.int32}),
    "aten::std.correction": ((_tensor(3, 50), [1]), {}),
    "aten::cat": (([_tensor(3, 4), _tensor(2, 4)],), {}),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_bits(translated, name: str) -> None:  # type: ignore[no-untyped-def]
    args, kwargs = CASES[name]
    first, second = run_both(translated, name, args, kwargs)
    assert not isinstance(first, str), first
    assert differences(second, first) == 0


@pytest.mark.parametrize("threads", [1, 4, 10])
def test_thread_chunks(translated, threads: int) -> None:  # type: ignore[no-untyped-def]
    translated.num_threads = threads
    try:
        first, second = run_both(translated, "aten::exp", (_tensor(3 * 32768 + 5),), {})
    finally:
        translated.num_threads = 4
    assert differences(second, first) == 0


def test_exceptions_unwind_through_translated_frames(translated) -> None:  # type: ignore[no-untyped-def]
    x = _tensor(3, 4)
    before = translated.machine.heap.live_bytes
    for _ in range(3):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            translated.call("aten::mm", x, x)
    first, second = run_both(translated, "aten::mm", (x, x), {})
    assert first == second
    assert differences(*run_both(translated, "aten::mm", (x, x.t()), {})) == 0
    assert translated.machine.heap.live_bytes - before < 1 << 20


def test_exception_inside_a_parallel_region(translated) -> None:  # type: ignore[no-untyped-def]
    weight, index = _tensor(10, 3), torch.tensor([0, 11])
    with pytest.raises(IndexError, match="out of range"):
        translated.call("aten::index_select", weight, 0, index)
    assert differences(*run_both(translated, "aten::index_select", (weight, 0, torch.tensor([1, 9])), {})) == 0


def test_provenance_is_counted(translated) -> None:  # type: ignore[no-untyped-def]
    assert translated.run("aten::exp", _tensor(8)).pure
    assert "sgemm_small" in translated.run("aten::mm", _tensor(3, 4), _tensor(4, 5)).provenance


def test_modes_share_one_machine(translated) -> None:  # type: ignore[no-untyped-def]
    cpu = translated.machine.translated
    with cpu.emulating():
        translated.call("aten::exp", _tensor(8))
        assert not cpu.translating
    assert cpu.translating


def test_a_second_oracle_maps_memory_elsewhere(translated, python) -> None:  # type: ignore[no-untyped-def]
    program = """
import torch
from torch_densecore.oracle import Oracle
first, second = Oracle(translate=True), Oracle(translate=True)
print(first.machine.translated.flat, second.machine.translated.flat)
x = torch.linspace(-5, 5, 1003)
print(torch.equal(first.call("aten::exp", x).view(torch.int32), second.call("aten::exp", x).view(torch.int32)))
"""
    assert python("-c", program).stdout.split() == ["True", "False", "True"]


def test_a_bad_pointer_is_an_error(translated, python) -> None:  # type: ignore[no-untyped-def]
    """In a process of its own: where another oracle holds the guest's addresses, what lies below them is not guarded."""
    program = """
import torch
from torch_densecore.oracle import GuestError, Oracle
oracle = Oracle(translate=True)
x = torch.linspace(-5, 5, 8)
before = oracle.call("aten::exp", x)
for _ in range(3):
    try:
        oracle.machine.call(oracle.machine.symbol("_aoti_torch_get_dim"), 0x1000, oracle.machine.heap.alloc(16))
    except GuestError as error:
        print("Invalid memory read" in str(error))
print(torch.equal(before, oracle.call("aten::exp", x)))
"""
    assert python("-c", program).stdout.split() == ["True"] * 4


def test_a_busy_unit_is_optimised(translated) -> None:  # type: ignore[no-untyped-def]
    promoted = translated.machine.translated.statistics.promoted
    x = torch.linspace(-3, 3, 1 << 19)
    first = translated.call("aten::tan", x)
    for _ in range(3):
        last = translated.call("aten::tan", x)
    statistics = translated.machine.translated.statistics
    assert statistics.promoted > promoted or statistics.loaded  # a cache may hold the optimised unit already
    assert torch.equal(first.view(torch.int32), last.view(torch.int32))


@pytest.mark.parametrize("guess", ["right", "wrong"])
def test_an_inlined_indirect_call(translated, guess: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """GELU's loop calls its function through a pointer; another function inlined for it must not run."""
    cpu, seen = translated.machine.translated, []
    real, other = cpu.target_seen, translated.machine.symbol("_Sleef_expf4_u10")

    def target_seen(pc: int) -> int | None:
        seen.append(pc)
        return real(pc) if guess == "right" else other

    monkeypatch.setattr(cpu, "target_seen", target_seen)
    x = _tensor(1 << 18)
    with cpu.emulating():
        want = translated.call("aten::gelu", x)
    with fresh_units(cpu, monkeypatch):
        for _ in range(3):
            assert differences(translated.call("aten::gelu", x), want) == 0
    assert seen


def test_a_wild_jump_is_an_error(translated) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Exception, match="0x10"):
        translated.machine.call(0x10)


def test_a_unit_that_does_not_compile_is_emulated(translated, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from torch_densecore.oracle.translate import cpu as module

    cpu, real, failed = translated.machine.translated, module.compile_text, []

    def refuse_first(text: str, level: int = 2):  # type: ignore[no-untyped-def]
        if not failed:
            failed.append(text)
            raise LinkError("made up")
        return real(text, level)

    function = translated.machine.symbol("_Sleef_expf4_u10")
    monkeypatch.setattr(module, "compile_text", refuse_first)
    monkeypatch.setattr(cpu._cache, "get", lambda pc: None)
    monkeypatch.setattr(cpu, "_units", {})
    cpu._slot(function).value = 0
    translated.machine.set_x(0, 0)
    translated.machine.call(function)
    assert cpu.statistics.failed == {function: "made up"}
    assert cpu.statistics.steps[function] == 1
    cpu.statistics.failed.clear()
    cpu._slot(function).value = 0


_MULTIPLY = struct.pack("<5I", 0xBD400000, 0xBD400401, 0x1E210802, 0xBD000802, 0xD65F03C0)  # word 2 of x0 = word 0 * word 1


@pytest.mark.parametrize("flush", [False, True])
def test_code_that_flushes_subnormals_is_emulated(translated, flush: bool) -> None:  # type: ignore[no-untyped-def]
    """pthreadpool's flag 1 sets the flush bit of the FPCR around its task; the emulator goes on to the end of the run."""
    machine, statistics = translated.machine, translated.machine.translated.statistics
    task = machine.stub_top
    machine.memory.write(task, _MULTIPLY)
    numbers = machine.heap.new(np.array([1e-30, 1e-10, 5], np.float32).tobytes())
    before = sum(statistics.handed_over.values())
    machine.call(machine.symbol("_pthreadpool_parallelize_1d"), 0, task, numbers, 1, int(flush))
    product = np.frombuffer(machine.memory.read(numbers + 8, 4), np.float32)[0]
    assert product == (0 if flush else np.float32(1e-30) * np.float32(1e-10))
    assert sum(statistics.handed_over.values()) - before == int(flush)
    assert translated.machine.translated.translating
    assert any("parallelize_1d" in line and "end of the run" in line for line in translation_report(translated)) or not flush
    machine.heap.free(numbers)
    x = _tensor(70_000)
    assert differences(*run_both(translated, "aten::exp", (x,), {})) == 0


def test_a_rounding_mode_that_stays_is_refused(translated) -> None:  # type: ignore[no-untyped-def]
    machine = translated.machine
    for _ in range(2):
        with pytest.raises(NotImplementedError, match="set_flush_denormal.*translate=False"):
            machine.call(machine.symbol("__ZN2at3cpu18set_flush_denormalEb"), 1)
    assert differences(*run_both(translated, "aten::exp", (_tensor(100) * 40,), {})) == 0


def test_without_llvm_the_oracle_emulates_with_one_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_densecore.oracle import Oracle, api

    monkeypatch.setattr(api, "find_spec", lambda name: None)
    monkeypatch.delenv("DENSECORE_TRANSLATE", raising=False)
    with pytest.warns(RuntimeWarning, match="emulates, since llvmlite is not installed") as notices:
        other = Oracle()
    assert len(notices) == 1 and other.machine.translated is None
    with pytest.raises(ImportError, match="llvmlite"):
        Oracle(translate=True)


def test_without_executable_memory_the_oracle_emulates(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_densecore.oracle import Oracle, translate

    def refuse(*_: object) -> None:
        raise MemoryError("made up")

    monkeypatch.setattr(translate, "install", refuse)
    monkeypatch.delenv("DENSECORE_TRANSLATE", raising=False)
    with pytest.warns(RuntimeWarning, match="emulates.*made up"):
        other = Oracle()
    assert other.machine.translated is None
    assert np.array_equal(other.call("aten::neg", np.ones(3, np.float32)), -np.ones(3))
    with pytest.raises(MemoryError, match="made up"):
        Oracle(translate=True)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "complex64"])
def test_operator_database(translated, dtype: str) -> None:  # type: ignore[no-untyped-def]
    mode = operator_database(translated, dtype)
    assert len(mode.calls) > 100
    assert not mode.off
