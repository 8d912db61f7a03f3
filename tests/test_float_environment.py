"""Rounding mode and flushing of subnormal numbers, set by the program or by a library: the device computes as if nobody had."""

from __future__ import annotations

import ctypes
import platform
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
