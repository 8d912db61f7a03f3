"""Wheel, Mach-O images, machine, heap and snapshot."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from torch_densecore.oracle import Oracle
from torch_densecore.oracle.errors import GuestError, UnknownOperator
from torch_densecore.oracle.heap import size_class


def test_images(oracle: Oracle) -> None:
    c10, torch_cpu = oracle.machine.images
    assert c10.name == "libc10.dylib" and torch_cpu.name == "libtorch_cpu.dylib"
    assert torch_cpu.segment("__TEXT").fileoff == 0
    assert len(torch_cpu.init_offsets()) > 300
    assert len(oracle.wheel.sha256) == 64


def test_fixups_of_a_segment(oracle: Oracle) -> None:
    image = oracle.machine.images[0]
    binds = [fixup for fixup in image.fixups() if fixup.ordinal >= 0]
    names = {image.imports[fixup.ordinal][0] for fixup in binds}
    assert "__Znwm" in names and "_malloc" in names


def test_thread_local_block(oracle: Oracle) -> None:
    start, template = oracle.machine.images[1].thread_template()
    assert start and len(template) > 100


def test_schemas(oracle: Oracle) -> None:
    assert len(oracle.operators()) > 2500
    assert "aten::native_layer_norm" in oracle.operators()


def test_second_boot_is_fast(oracle: Oracle) -> None:
    start = time.time()
    other = Oracle()
    assert time.time() - start < 5
    assert other.call("aten::add.Tensor", 1.0, 2.0) == 3.0


def test_snapshot_is_copy_on_write(oracle: Oracle) -> None:
    path = oracle.snapshot_dir / "memory.bin"
    before = path.stat().st_mtime_ns
    oracle.manual_seed(3)
    oracle.call("aten::rand", [8])
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("size", [0, 1, 16, 17, 1024, 1025, 1152, 1153, 4096, 100_000, 1 << 20, (1 << 30) + 1])
def test_size_classes(size: int) -> None:
    index, total = size_class(size)
    assert total >= max(size, 16) and index < 512
    assert size_class(total) == (index, total)


def test_heap_reuses_blocks(oracle: Oracle) -> None:
    heap = oracle.machine.heap
    first = heap.alloc(1000)
    assert first % 16 == 0
    heap.free(first)
    assert heap.alloc(1000) == first
    heap.free(first)
    aligned = heap.alloc(100, 64)
    assert aligned % 64 == 0
    heap.free(aligned)
    heap.free(aligned)  # a second free is ignored
    assert heap.alloc(100, 64) == aligned
    heap.free(aligned)


def test_python_heap_matches_native(oracle: Oracle) -> None:
    heap = oracle.machine.heap
    if heap.native is None:
        pytest.skip("no C compiler")
    native, blocks, size = heap.native, heap.live_blocks, heap.live_bytes
    address = heap.alloc(3000)
    heap.native = None
    try:
        assert heap.usable(address) == 3000
        heap.free(address)
        assert (heap.live_blocks, heap.live_bytes) == (blocks, size)
        assert heap.alloc(3000) == address
    finally:
        heap.native = native
    heap.free(address)
    assert (heap.live_blocks, heap.live_bytes) == (blocks, size)


def test_bad_access_is_reported(oracle: Oracle, python) -> None:  # type: ignore[no-untyped-def]
    """In a process of its own: where another oracle holds the guest's addresses, what lies below them is not guarded."""
    program = """
from torch_densecore.oracle import GuestError, Oracle
oracle = Oracle()
try:
    oracle.machine.call(oracle.machine.symbol("_aoti_torch_get_dim"), 0x20, 0x30)
except GuestError as error:
    print(error)
print(float(oracle.call("aten::add.Tensor", 1.0, 2.0)))
"""
    message, result = python("-c", program).stdout.splitlines()
    assert "invalid memory" in message.lower(), message
    assert result == "3.0"


def test_command_line() -> None:
    command = [sys.executable, "-m", "torch_densecore.cli", "oracle", "op", "aten::relu", "--shape", "2,3", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert "provenance: nothing modelled" in done.stdout


def test_without_native_helper() -> None:
    environment = {**os.environ, "DENSECORE_NO_NATIVE": "1"}
    command = [sys.executable, "-m", "torch_densecore.cli", "oracle", "boot"]
    folder = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compiled helper no" in done.stdout and "FAIL" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", os.environ.get("ORACLE_TEST_VERSIONS", "").split())
def test_other_versions(version: str) -> None:
    """Older wheels use bind opcodes and initialiser pointers; set ORACLE_TEST_VERSIONS="2.4.0 2.6.0"."""
    other = Oracle(version)
    x = np.linspace(-3, 3, 37, dtype=np.float32)
    assert np.array_equal(other.call("aten::add.Tensor", x, x), x + x)
    assert np.allclose(other.call("aten::exp", x), np.exp(x), rtol=1e-6)
    assert np.array_equal(other.call("aten::index.Tensor", x, [np.array([3, 1])]), x[[3, 1]])
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        other.call("aten::mm", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


def test_missing_import_is_named(oracle: Oracle) -> None:
    with pytest.raises(GuestError, match="import _no_such_function is not implemented"):
        oracle.machine.call(oracle.machine.trap("_no_such_function"))
    assert oracle.call("aten::add.Tensor", 1.0, 2.0) == 3.0


def test_unknown_operators_get_near_names(oracle: Oracle) -> None:
    with pytest.raises(UnknownOperator, match=r"no operator aten::gelux in torch 2.13.0; did you mean aten::gelu"):
        oracle.schema("aten::gelux")
    with pytest.raises(UnknownOperator, match=r"did you mean .*aten::add\.Tensor"):
        oracle.call("aten::add", 1, 2)


def test_address_space_limit_is_explained() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))\n"
        "from torch_densecore.oracle.memory import AddressSpace; AddressSpace()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert "MemoryError: the oracle cannot map 40.0 GiB" in done.stderr and "ulimit -v" in done.stderr
