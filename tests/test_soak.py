"""Twenty-four thousand calls of every kind: nothing grows."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch

F = torch.nn.functional
CALLS, WARM_UP = 24_000, 4_000


def _training_step(x: torch.Tensor) -> None:
    w = x[:64, :64].detach().clone().requires_grad_()
    F.cross_entropy(F.gelu(x[:32, :64] @ w), torch.arange(32, device=x.device)).backward()


def _refused(x: torch.Tensor) -> None:
    with suppress(RuntimeError):
        x @ x[:3]


KINDS: tuple[Callable[[torch.Tensor], object], ...] = (
    torch.exp,
    lambda x: x * 0.5 + 1.0,
    lambda x: x @ x,
    lambda x: x.sum(0),
    lambda x: torch.softmax(x, 0),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: torch.sort(x, 1),
    lambda x: x.to("cpu").to("densecore"),
    lambda x: torch.exp(x[:5], out=torch.empty(0, device=x.device)),
    lambda x: x.transpose(0, 1).contiguous().view(-1)[3:],
    lambda x: torch.randn(100, device=x.device),
    lambda x: x.bernoulli(0.5),
    lambda x: F.scaled_dot_product_attention(*[x[:64].view(1, 1, 64, -1)] * 3, is_causal=True),
    lambda x: x.tolist() if x.numel() < 100 else x.add_(0.0),
    _training_step,
    _refused,
)


def peak_kib() -> int:
    """The process's largest resident memory so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def run(calls: int, x: torch.Tensor) -> None:
    for i in range(calls):
        KINDS[i % len(KINDS)](x)


@pytest.mark.slow
def test_nothing_grows() -> None:
    x = torch.randn(200, 200, device="densecore")
    run(WARM_UP, x)
    allocated, peak = torch.densecore.memory_allocated(), peak_kib()
    run(CALLS, x)
    assert torch.densecore.memory_allocated() == allocated
    assert peak_kib() - peak < 2048  # 24,000 leaked tensors of one page would be 96,000


@pytest.mark.slow
def test_the_measurement_sees_a_leak() -> None:
    x = torch.randn(200, 200, device="densecore")
    run(WARM_UP // 10, x)
    peak = peak_kib()
    kept = [torch.exp(x[:6]) for _ in range(CALLS // 8)]
    assert peak_kib() - peak > 2048
    assert len(kept) == CALLS // 8
