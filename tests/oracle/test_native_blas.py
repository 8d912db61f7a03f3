"""The compiled BLAS model against the one in Python, and the compiled OpenMP runtime's errors."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from torch_densecore.certify import bits
from torch_densecore.oracle import Oracle, native
from torch_densecore.oracle.errors import GuestError
from torch_densecore.oracle.memory import TRAP_BASE
from torch_densecore.oracle.native_blas import BlasTables


@pytest.fixture(autouse=True)
def _needs_helper(oracle: Oracle) -> None:
    if oracle.machine.native is None:
        pytest.skip("no C compiler")


@contextmanager
def python_hooks(oracle: Oracle, names: set[str]) -> Iterator[None]:
    """Serve imports by their hooks in Python."""
    machine = oracle.machine
    slots = [(machine.traps[name] - TRAP_BASE) // 4 for name in names if name in machine.traps]
    handlers = machine.native.handler  # type: ignore[union-attr]
    saved = [handlers[slot] for slot in slots]
    for slot in slots:
        handlers[slot] = 0
    try:
        yield
    finally:
        for slot, number in zip(slots, saved, strict=True):
            handlers[slot] = number


def _values(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Single-precision values: their products are exact in double, where Python's fused multiply-add needs that."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
    return torch.where(x.abs() < 0.05, torch.zeros(()), x).to(dtype)


def _same(oracle: Oracle, name: str, *args: object, **kwargs: object) -> None:
    native = oracle.run(name, *args, **kwargs)
    with python_hooks(oracle, oracle.blas.symbols):
        python = oracle.run(name, *args, **kwargs)
    assert bits.same(native.value, python.value)
    assert native.blas == python.blas and native.blas
    assert [call.rule for call in native.blas] == [call.rule for call in python.blas]
    assert native.provenance == python.provenance


SHAPES = [
    (1, 1, 1), (1, 7, 1), (3, 4, 5), (4, 3, 6), (5, 13, 11), (2, 200, 3), (17, 9, 33), (32, 12, 6), (33, 300, 13), (64, 257, 70),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products(oracle: Oracle, dtype: torch.dtype, transposed: tuple[bool, bool]) -> None:
    for m, k, n in SHAPES:
        a = _values(k, m, dtype=dtype).t() if transposed[0] else _values(m, k, dtype=dtype)
        b = _values(n, k, dtype=dtype).t() if transposed[1] else _values(k, n, dtype=dtype)
        _same(oracle, "aten::mm", a, b)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.7, 1), (1, 0.3), (-2.5, 0)])
def test_scaled_and_added(oracle: Oracle, alpha: float, beta: float) -> None:
    for m, k, n in SHAPES[3:8]:
        _same(oracle, "aten::addmm", _values(m, n), _values(m, k), _values(k, n), alpha=alpha, beta=beta)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors(oracle: Oracle, dtype: torch.dtype) -> None:
    for m, k, _ in SHAPES[1:]:
        _same(oracle, "aten::mv", _values(m, k, dtype=dtype), _values(k, dtype=dtype))
        _same(oracle, "aten::mv", _values(k, m, dtype=dtype).t(), _values(2 * k, dtype=dtype)[::2])
        added, matrix, vector = (_values(*shape, dtype=dtype) for shape in ((m,), (m, k), (k,)))
        _same(oracle, "aten::addmv", added, matrix, vector, alpha=0.5, beta=2)
        _same(oracle, "aten::dot", _values(3 * k, dtype=dtype)[::3], _values(k, dtype=dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_signs_of_zero_and_special_values(oracle: Oracle) -> None:
    x = torch.tensor([0.0, -0.0, 1e-30, -1e-30, float("inf"), -1.0, 3e38, float("nan")])
    for k in (2, 5, 8):
        a, b = x.repeat(8)[: 8 * k].view(8, k), x.flip(0).repeat(8)[: 8 * k].view(k, 8)
        _same(oracle, "aten::mm", a, b)
        _same(oracle, "aten::mm", a.repeat(8, 8), b.repeat(8, 8))


def test_tables_that_do_not_fit() -> None:
    order = {"lanes": 1, "accumulators": 1, "tail": "fused"}
    rules = [{"routine": "gemm", "order": "chain"}]
    assert BlasTables().fill({"orders": {"chain": order}, "rules": rules})
    assert not BlasTables().fill({"orders": {"chain": {**order, "accumulators": 9}}, "rules": rules})
    assert not BlasTables().fill({"orders": {"chain": order}, "rules": rules * 17})


def test_parallel_regions_are_the_same_in_python(oracle: Oracle) -> None:
    x = _values(100_003)
    native = oracle.run("aten::sum", x)
    with python_hooks(oracle, {name for name in oracle.machine.hooks if name.startswith(("___kmpc", "_omp"))}):
        python = oracle.run("aten::sum", x)
    assert bits.same(native.value, python.value)
    assert native.parallel_regions == python.parallel_regions == 1


@pytest.mark.parametrize("where", ["translated", "emulated"])
def test_a_hook_that_fails_in_a_parallel_region(oracle: Oracle, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes through the compiled region; afterwards the oracle is usable and not in a region."""
    machine = oracle.machine
    if machine.translated is not None:
        monkeypatch.setattr(machine.translated, "translating", where == "translated")
    elif where == "translated":
        pytest.skip("no translation here")

    def fail(m: object) -> None:
        raise GuestError("made up")

    x = _values(70_001)
    slot = (machine.traps["_omp_get_thread_num"] - TRAP_BASE) // 4
    table = [fail if index == slot else hook for index, hook in enumerate(machine._table)]
    with python_hooks(oracle, {"_omp_get_thread_num"}), monkeypatch.context() as patch:
        patch.setattr(machine, "_table", table)
        for _ in range(2):
            with pytest.raises(GuestError, match="made up"):
                oracle.call("aten::exp", x)
            assert machine.openmp.level == 0 and machine.depth == 0
    result = oracle.run("aten::exp", x)
    assert result.parallel_regions == 1 and torch.allclose(result.value, x.exp())


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the flags are of x86-64")
def test_a_host_without_fused_instructions_gets_the_same_products(oracle: Oracle, tmp_path: Path) -> None:
    source = Path(native.__file__).parent / "helper" / "product.c"
    flags = ["-O2", "-march=x86-64", "-ffp-contract=off", "-shared", "-fPIC"]
    library = tmp_path / "product.so"
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    for name, kind in (("single_chain", np.float32), ("double_chain", np.float64)):
        rng = np.random.default_rng(0)
        a, b, start = (rng.standard_normal(shape).astype(kind) for shape in ((70, 37), (37, 21), (70, 21)))
        results = []
        for lib in (oracle.machine.native.lib, ctypes.CDLL(str(library))):  # type: ignore[union-attr]
            c = start.copy()
            scalar = ctypes.c_float if kind is np.float32 else ctypes.c_double
            getattr(lib, name).argtypes = [ctypes.c_int] * 2 + [ctypes.c_long] * 3 + [
                scalar, ctypes.c_void_p, ctypes.c_long, ctypes.c_void_p, ctypes.c_long, scalar, ctypes.c_void_p, ctypes.c_long,
            ]  # fmt: skip
            m, k, n = 21, 37, 70  # column-major: the transposes of the arrays
            getattr(lib, name)(0, 0, m, n, k, 0.7, b.ctypes.data, m, a.ctypes.data, k, 1.5, c.ctypes.data, m)
            results.append(c)
        assert np.array_equal(results[0].view(np.uint8), results[1].view(np.uint8))
        assert np.allclose(results[0], 0.7 * (a.astype(np.float64) @ b) + 1.5 * start, rtol=1e-4, atol=1e-4)
