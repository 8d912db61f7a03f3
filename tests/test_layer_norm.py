"""Layer normalization: against the reference wheel (marked oracle), across hosts, and against torch's CPU op for errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare
from torch_densecore.certify.inputs import THREADS, tensor

# Around vectors of 4, chunks of 64 columns and the cascade's levels (2, 4, 8 ... chunks)
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 16, 17, 63, 64, 65, 67, 128, 130, 255, 256, 384, 516, 1023, 1100, 4099)
ROWS = (1, 2, 5, 16, 17)
KINDS = ("normal", "wide", "mixed", "special")


def parameters(width: int) -> list[tuple[torch.Tensor | None, torch.Tensor | None]]:
    """Weight and bias: both, one, none; the reference has a loop for each."""
    weight, bias = (tensor((width,), torch.float32, width + k, "normal") for k in (1, 2))
    return [(weight, bias), (weight, None), (None, bias), (None, None)]


def forward_calls(widths: tuple[int, ...], rows: tuple[int, ...], kinds: tuple[str, ...] = KINDS) -> Iterator[Call]:
    for width, count, kind in product(widths, rows, kinds):
        for weight, bias in parameters(width):
            yield Call((tensor((count, width), torch.float32, count, kind), [width], weight, bias, 1e-5))


def backward_calls(widths: tuple[int, ...], rows: tuple[int, ...], threads: tuple[int, ...]) -> Iterator[Call]:
    """The statistics come from the device, so that both sides see the same."""
    for width, count, number in product(widths, rows, threads):
        x = tensor((count, width), torch.float32, count, "normal") * 3 + 1
        grad = tensor((count, width), torch.float32, width, "normal")
        _, mean, rstd = torch.native_layer_norm(x.to("densecore"), [width], None, None, 1e-5)
        for weight, bias in parameters(width):
            mask = [True, weight is not None, bias is not None]
            yield Call((grad, x, [width], mean.cpu(), rstd.cpu(), weight, bias, mask), threads=number)


@pytest.mark.oracle
def test_forward_matches_the_reference():
    compare("aten::native_layer_norm", forward_calls((1, 3, 5, 32, 65, 130, 384), (1, 17))).check()


@pytest.mark.oracle
def test_backward_matches_the_reference():
    compare("aten::native_layer_norm_backward", backward_calls((1, 3, 5, 32, 65, 130, 384), (1, 17), (1, 3, 4))).check()


@pytest.mark.slow
@pytest.mark.oracle
def test_sweep():
    compare("aten::native_layer_norm", forward_calls(WIDTHS, ROWS)).check()
    compare("aten::native_layer_norm_backward", backward_calls(WIDTHS, (*ROWS, 50), THREADS)).check()


@pytest.mark.oracle
def test_shapes_and_layouts_match_the_reference():
    weight = tensor((6, 7), torch.float32, 1, "normal")
    calls = [Call((tensor((3, 5, 6, 7), torch.float32, 2, "normal", layout), [6, 7], weight, weight, 1e-3))
             for layout in ("contiguous", "strided", "transposed", "offset", "expanded")]  # fmt: skip
    calls += [Call((torch.randn(0, 4), [4], None, None, 1e-5)), Call((torch.randn(3, 4), [4], weight.view(-1)[:4], None, 0.0))]
    compare("aten::native_layer_norm", calls).check()


def test_host_threads_and_isa_do_not_matter():
    torch.manual_seed(0)
    x = torch.randn(150, 67).to("densecore").requires_grad_()
    weight, bias = (torch.randn(67).to("densecore").requires_grad_() for _ in range(2))
    grad = torch.randn(150, 67).to("densecore")

    def run():
        results = []
        for w, b in ((weight, bias), (weight, None), (None, None)):
            y = torch.nn.functional.layer_norm(x, [67], w, b)
            results.append((y, torch.autograd.grad(y, [t for t in (x, w, b) if t is not None], grad)))
        return results

    assert_same_on_every_host(run)


BAD = {
    "no dimension": lambda x: torch.native_layer_norm(x, [], None, None, 1e-5),
    "another shape": lambda x: torch.native_layer_norm(x, [4], None, None, 1e-5),
    "weight of another shape": lambda x: torch.native_layer_norm(x, [3], x[0, :2], None, 1e-5),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    assert_same_error(lambda device: BAD[name](torch.randn(2, 3, device=device)))
