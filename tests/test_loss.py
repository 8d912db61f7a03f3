"""Losses: against the reference wheel (marked oracle), across hosts, and against torch's CPU op for errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host
from torch.nn import functional as F

from torch_densecore.certify import Call, compare
from torch_densecore.certify.inputs import tensor

REDUCTIONS = (0, 1, 2)  # none, mean, sum
BATCHES = (1, 2, 15, 16, 17, 255, 256, 257, 300, 4099)


def targets(count: tuple[int, ...], classes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(count))
    return torch.randint(0, classes, count, generator=generator).to(dtype)


def nll_calls(batches: tuple[int, ...], classes: int = 7) -> Iterator[Call]:
    for batch, reduction, ignored in product(batches, REDUCTIONS, (-100, 2)):
        logits = -tensor((batch, classes), torch.float32, batch, "positive")
        for weight in (None, tensor((classes,), torch.float32, 3, "positive")):
            yield Call((logits, targets((batch,), classes), weight, reduction, ignored))


def nll2d_calls(shapes: list[tuple[int, int, int]], classes: int = 5) -> Iterator[Call]:
    for (batch, height, width), reduction, ignored in product(shapes, REDUCTIONS, (-100, 2)):
        logits = -tensor((batch, classes, height, width), torch.float32, batch, "positive")
        for weight in (None, tensor((classes,), torch.float32, 3, "positive")):
            yield Call((logits, targets((batch, height, width), classes), weight, reduction, ignored))


def backward_of(forward: Iterator[Call], op) -> Iterator[Call]:
    """Backward calls with the forward's total weight from the device."""
    for call in forward:
        logits, target, weight, reduction, ignored = call.args
        device = [t.to("densecore") if isinstance(t, torch.Tensor) else t for t in call.args]
        loss, total = op(*device)
        yield Call((tensor(tuple(loss.shape), torch.float32, 4, "normal"), logits, target, weight, reduction, ignored, total.cpu()))


@pytest.mark.oracle
def test_nll_matches_the_reference():
    compare("aten::nll_loss_forward", nll_calls(BATCHES)).check()
    compare("aten::nll_loss_backward", backward_of(nll_calls((1, 17, 300)), torch.ops.aten.nll_loss_forward)).check()


@pytest.mark.oracle
def test_nll2d_matches_the_reference():
    shapes = [(1, 1, 1), (2, 3, 5), (1, 16, 16), (3, 17, 9)]
    compare("aten::nll_loss2d_forward", nll2d_calls(shapes)).check()
    compare("aten::nll_loss2d_backward", backward_of(nll2d_calls(shapes[:2]), torch.ops.aten.nll_loss2d_forward)).check()


@pytest.mark.oracle
def test_other_targets_and_layouts_match_the_reference():
    logits = -tensor((20, 7), torch.float32, 1, "positive", "transposed")
    all_ignored = torch.full((20,), 3)
    calls = [Call((logits, targets((20,), 7, torch.uint8), None, 1, -100)), Call((logits, all_ignored, None, 1, 3)),
             Call((logits, all_ignored, None, 2, 3)), Call((logits[0], torch.tensor(3), None, 1, -100)),
             Call((logits[:0], all_ignored[:0], None, 1, -100)), Call((logits, targets((40,), 7)[::2], None, 1, -100))]  # fmt: skip
    compare("aten::nll_loss_forward", calls).check()


@pytest.mark.oracle
@pytest.mark.parametrize("op, rest", [("mse_loss", ()), ("smooth_l1_loss", (0.7,)), ("huber_loss", (0.7,))])
def test_elementwise_losses_match_the_reference(op, rest):
    calls = []
    for shape, reduction, layout in product(((), (7,), (3, 67), (5, 4, 6)), REDUCTIONS, ("contiguous", "transposed")):
        pair = [tensor(shape, torch.float32, seed, "mixed" if reduction == 0 else "normal", layout) for seed in (1, 2)]
        calls.append(Call((*pair, reduction, *rest)))
    pair = [tensor((70_000,), torch.float32, seed, "normal") for seed in (1, 2)]
    calls += [Call((*pair, 1, *rest), threads=3)]
    compare(f"aten::{op}", calls).check()


@pytest.mark.oracle
def test_mse_gradient_matches_the_reference():
    x, y = (tensor((3, 67), torch.float32, seed, "mixed") for seed in (1, 2))
    calls = [Call((torch.tensor(0.7), x, y, reduction)) for reduction in (1, 2)] + [Call((y, x, y, 0))]
    compare("aten::mse_loss_backward", calls).check()


def cross_entropies(shape: tuple[int, ...], layout: str = "contiguous") -> Iterator[tuple]:
    """Arguments of binary_cross_entropy: probabilities 0 and 1 among them, with and without a weight."""
    x, target, weight = (tensor(shape, torch.float32, seed, "unit", layout) for seed in (1, 2, 3))
    x.flatten()[:1], target.flatten()[:1] = 0, 1
    for reduction, w in product(REDUCTIONS, (None, weight)):
        yield x, target, w, reduction


@pytest.mark.oracle
def test_binary_cross_entropy_matches_the_reference():
    shapes = [(), (1,), (3,), (17,), (3, 67), (5, 4, 6), (40_000,)]
    forward = [Call(a) for shape, layout in product(shapes, ("contiguous", "transposed")) for a in cross_entropies(shape, layout)]
    forward += [Call((tensor((4, 6), torch.float32, 1, "unit"), tensor((1, 6), torch.float32, 2, "unit"), None, 0))]
    forward += [Call(next(cross_entropies((140_000,)))[:3] + (1,), threads=n) for n in (1, 2, 8)]
    compare("aten::binary_cross_entropy", forward).check()
    backward = [
        Call((tensor(shape if a[3] == 0 else (), torch.float32, 4, "normal"), *a))
        for shape in shapes
        for a in cross_entropies(shape)
    ]
    compare("aten::binary_cross_entropy_backward", backward).check()


@pytest.mark.slow
@pytest.mark.oracle
def test_sweep():
    """Past 2^40 cascade steps would need a second level power; 2^17 samples cross three levels."""
    compare("aten::nll_loss_forward", nll_calls((65_537, 131_072), classes=3)).check()


def test_cross_entropy_on_every_host():
    torch.manual_seed(0)
    logits = torch.randn(130, 67).to("densecore").requires_grad_()
    target = targets((130,), 67).to("densecore")
    weight = torch.rand(67).to("densecore")

    def run():
        results = []
        for w, reduction in product((None, weight), ("mean", "sum", "none")):
            loss = F.cross_entropy(logits, target, w, reduction=reduction, ignore_index=5)
            results.append((loss, *torch.autograd.grad(loss.sum(), logits)))
        return results, F.binary_cross_entropy(weight.expand(130, 67), weight.square().expand(130, 67))

    assert_same_on_every_host(run)


BAD = {
    "target out of range": lambda x: F.nll_loss(x, torch.tensor([0, 3], device=x.device)),
    "negative target": lambda x: F.nll_loss(x, torch.tensor([0, -1], device=x.device)),
    "another batch": lambda x: torch.ops.aten.nll_loss_forward(x, torch.tensor([0], device=x.device), None, 1, -100),
    "weight of another size": lambda x: F.nll_loss(x, torch.tensor([0, 1], device=x.device), x[0, :2]),
    "probability above 1": lambda x: F.binary_cross_entropy(x.abs() + 1.5, x.sigmoid()),
    "target below 0": lambda x: F.binary_cross_entropy(x.sigmoid(), -x.abs() - 1),
    "sizes": lambda x: torch.ops.aten.binary_cross_entropy(x.sigmoid(), x[:, :2].sigmoid()),
    "float target": lambda x: torch.ops.aten.nll_loss_forward(x, x[:, 0], None, 1, -100),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    assert_same_error(lambda device: BAD[name](torch.randn(2, 3, device=device)))
