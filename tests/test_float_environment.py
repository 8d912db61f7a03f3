"""Rounding mode and flushing of subnormal numbers, set by the program or by a library: the device computes as if nobody had."""

from __future__ import annotations

import ctypes
import platform
import shutil
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

# <fenv.h> of glibc: FE_UPWARD, FE_TONEAREST
ROUNDING = {"x86_64": (0x800, 0), "aarch64": (0x400000, 0)}
LARGE = 200_003  # more than one chunk of torch's, on several threads


def subnormals(count: int) -> torch.Tensor:
    """Subnormal numbers and small normal ones whose products and halves are subnormal."""
    words = torch.arange(1, count + 1, dtype=torch.int32) * 83 % 0x01000000
    return words.view(torch.float32)


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "kernel": lambda x: torch.add(x, x, alpha=0.75),
    "kernel of a function": torch.expm1,
    "kernel that reduces": lambda x: x.view(1, -1).expand(3, -1).sum(1),
    "host call": lambda x: x * 0.5,
    "host call of two": lambda x: x / (x + 1.0),
    "matrix product": lambda x: x[:4096].view(64, 64) @ torch.ones(64, 64, device=x.device),
}


def bits(result: torch.Tensor) -> bytes:
    return result.cpu().numpy().tobytes()


@contextmanager
def flushing() -> Iterator[None]:
    assert torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def rounding_upward() -> Iterator[None]:
    if platform.machine() not in ROUNDING:
        pytest.skip(f"the constants of <fenv.h> on {platform.machine()} are not known here")
    upward, nearest = ROUNDING[platform.machine()]
    libm = ctypes.CDLL(None)
    assert libm.fesetround(upward) == 0
    try:
        yield
    finally:
        libm.fesetround(nearest)


@pytest.mark.parametrize("count", [5000, LARGE])
@pytest.mark.parametrize("foreign", [flushing, rounding_upward])
@pytest.mark.parametrize("name", CASES)
def test_the_device_keeps_its_own_environment(name: str, foreign: Callable, count: int) -> None:
    x = subnormals(count).to("densecore")
    expected = bits(CASES[name](x))
    with foreign(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = CASES[name](x)
    assert bits(got) == expected


@pytest.mark.parametrize("count", [5000, LARGE])
def test_the_program_finds_its_environment_again(count: int) -> None:
    x = subnormals(count)
    with flushing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = x * 0.5
        x.to("densecore").exp()
        x.to("densecore") * 0.5
        assert bits(x * 0.5) == bits(before)
        assert not before[:100].any()


def test_it_is_said_once(python: Callable) -> None:
    program = """import torch, torch_densecore
torch.set_flush_denormal(True)
x = torch.ones(3, device="densecore")
[x.exp() for _ in range(3)]
"""
    assert python("-c", program).stderr.count("flushes subnormal numbers") == 1


WORKERS = """
import torch, torch_densecore
torch.set_num_threads(4)
torch.set_flush_denormal(True)         # torch's threads start below and flush from then on
x = (torch.arange(1, 400_001, dtype=torch.int32) % 0x7fffff).view(torch.float32)
x + x
torch.set_flush_denormal(False)
assert not (x * 0.5)[-1000:].any()     # the premise: this thread no longer flushes, the others do
y = x.to("densecore")
for flush in (False, True):
    torch.set_flush_denormal(flush)
    half, kernel = y * 0.5, torch.add(y, y, alpha=0.75)
    torch.set_flush_denormal(False)
    words = half.cpu().view(torch.int32)
    expected = (torch.arange(1, 400_001, dtype=torch.float64) % 0x7fffff / 2).round().to(torch.int32)
    assert torch.equal(words, expected), (flush, (words != expected).sum())
    assert kernel.cpu()[-1000:].all()
print("kept")
"""


def test_threads_that_were_started_while_flushing(python: Callable) -> None:
    """Torch's intra-op threads inherit the environment of the thread that starts them, for life."""
    assert python("-W", "ignore", "-c", WORKERS, OMP_NUM_THREADS="4").stdout.strip() == "kept"


# What crtfastmath.o does, which gcc before 13 links into a shared library that is built with -ffast-math.
FLUSHES_WHEN_LOADED = {
    "x86_64": "#include <immintrin.h>\n__attribute__((constructor)) void f(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }",
    "aarch64": '__attribute__((constructor)) void f(void) { __asm__ volatile("msr fpcr, %0" : : "r"(1UL << 24)); }',
}
FLUSHES_WHEN_LOADED["arm64"] = FLUSHES_WHEN_LOADED["aarch64"]
LOADS_A_LIBRARY = """
import ctypes, sys, torch, torch_densecore
x = torch.arange(1, 5001, dtype=torch.int32).view(torch.float32)
y = x.to("densecore")
compute = lambda: [(y * 0.5).cpu(), torch.add(y, y, alpha=0.75).cpu(), torch.expm1(y).cpu()]
expected = compute()
ctypes.CDLL(sys.argv[1])
print("flushes" if not (x * 0.5).any() else "does not")
assert all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(compute(), expected, strict=True))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("how", ["-ffast-math", "constructor"])
def test_a_library_that_sets_flushing_when_it_is_loaded(how: str, tmp_path: Path, python: Callable) -> None:
    source, library = tmp_path / "fast.c", tmp_path / "libfast.so"
    source.write_text("int nothing;" if how == "-ffast-math" else FLUSHES_WHEN_LOADED[platform.machine()])
    subprocess.run(["cc", "-shared", "-fPIC", *[how][: how.startswith("-")], str(source), "-o", str(library)], check=True)
    said = python("-W", "ignore", "-c", LOADS_A_LIBRARY, str(library)).stdout.strip()
    if how == "-ffast-math" and said == "does not":
        pytest.skip("this compiler's -ffast-math does not set flushing in shared libraries")
    assert said == "flushes"


TRAPS = """
import ctypes, sys, torch, torch_densecore
x = torch.tensor([1.0, -1.0, 0.0, 3e38])
y, zero = x.to("densecore"), torch.zeros(4, device="densecore")
ctypes.CDLL(None).feenableexcept(0x01 | 0x04 | 0x08)  # invalid, division by zero, overflow
if sys.argv[1] == "cpu":
    x / torch.zeros(4)
print(*(y / zero).tolist(), *torch.add(y, y, alpha=3).tolist())
"""


@pytest.mark.skipif(platform.system() != "Linux" or platform.machine() != "x86_64", reason="constants of glibc on x86-64")
def test_traps_do_not_fire_in_the_devices_ops(python: Callable) -> None:
    assert python("-W", "ignore", "-c", TRAPS, "device").stdout.split() == "inf -inf nan inf 4.0 -4.0 0.0 inf".split()
    assert python("-W", "ignore", "-c", TRAPS, "cpu", check=False).returncode == -signal.SIGFPE
