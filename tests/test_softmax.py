"""Softmax and log-softmax: against the reference wheel (marked oracle), across hosts, and against torch's CPU op for errors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare
from torch_densecore.certify.inputs import THREADS, tensor

OPS = ("_softmax", "_log_softmax")
ROWS = [(r, n) for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 67, 130, 383, 1027) for r in (1, 2, 16, 17)]
COLUMNS = [(o, d, i) for o in (1, 2, 5) for d in (1, 2, 5, 17) for i in (1, 2, 3, 4, 5, 7, 9, 17, 19, 33, 67)]
QUICK_ROWS = [(1, 1), (2, 3), (17, 65), (3, 130), (16, 33), (2, 7)]
QUICK_COLUMNS = [(2, 5, 19), (5, 17, 3), (1, 2, 67), (5, 5, 7), (1, 5, 1)]


def special(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    """Logits with masked, infinite, NaN and large elements, and zeros of both signs."""
    if kind in ("normal", "wide", "special", "mixed"):
        return tensor(shape, torch.float32, len(kind) + sum(shape), kind)
    x = tensor(shape, torch.float32, sum(shape), "normal") * 4
    flat = x.view(-1)
    if kind == "masked":
        flat[::3] = -math.inf
    elif kind == "masked row":
        x[0] = -math.inf
    elif kind == "nan row":
        x[-1] = math.nan
    elif kind == "large":
        flat *= 60
    elif kind == "zeros":
        flat[::2], flat[1::2] = 0.0, -0.0
    return x


KINDS = ("normal", "wide", "special", "mixed", "masked", "masked row", "nan row", "large", "zeros")


def calls(
    shapes: list[tuple[int, ...]], dim: int, kinds: tuple[str, ...], *rest: object, threads: tuple[int | None, ...] = (None,)
) -> Iterator[Call]:
    for shape, kind, count in product(shapes, kinds, threads):
        yield Call((special(shape, kind), dim, *rest), threads=count)


def backward_calls(op: str, shapes: list[tuple[int, ...]], dim: int, kinds: tuple[str, ...]) -> Iterator[Call]:
    """The output comes from the device, so that both sides see the same."""
    for shape, kind in product(shapes, kinds):
        output = getattr(torch.ops.aten, op)(special(shape, kind).to("densecore"), dim, False).cpu()
        yield Call((tensor(shape, torch.float32, 5, "normal"), output, dim, torch.float32))


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_matches_the_reference(op):
    compare(f"aten::{op}", calls(QUICK_ROWS, -1, KINDS, False)).check()
    compare(f"aten::{op}", calls(QUICK_COLUMNS, 1, KINDS, False, threads=(1, 3, 4))).check()
    for shapes, dim in ((QUICK_ROWS, -1), (QUICK_COLUMNS, 1)):
        compare(f"aten::{op}_backward_data", backward_calls(op, shapes, dim, ("normal", "masked"))).check()


@pytest.mark.oracle
def test_safe_softmax_matches_the_reference():
    compare("aten::_safe_softmax", calls(QUICK_ROWS, -1, KINDS)).check()
    compare("aten::_safe_softmax", calls([(5, 5, 7)], 1, KINDS)).check()


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_sweep(op):
    compare(f"aten::{op}", calls(ROWS, -1, KINDS, False)).check()
    compare(f"aten::{op}", calls(COLUMNS, 1, KINDS, False)).check()
    compare(f"aten::{op}", calls(COLUMNS, 1, ("normal",), False, threads=THREADS)).check()
    compare(f"aten::{op}", calls([(3, 5, 70_001), (2, 40_000, 3)], 1, ("normal",), False, threads=(1, 3, 4))).check()
    for shapes, dim in ((ROWS, -1), (COLUMNS, 1)):
        compare(f"aten::{op}_backward_data", backward_calls(op, shapes, dim, ("normal", "masked", "special"))).check()


@pytest.mark.oracle
@pytest.mark.parametrize("layout", ("strided", "transposed", "expanded", "offset"))
def test_layouts_match_the_reference(layout):
    x = tensor((6, 9, 11), torch.float32, 3, "normal", layout)
    for op in OPS:
        compare(f"aten::{op}", [Call((x, dim, False)) for dim in (0, 1, 2)]).check()


def test_host_threads_and_isa_do_not_matter():
    torch.manual_seed(0)
    x = (torch.randn(70, 33, 67) * 4).to("densecore").requires_grad_()
    grad = torch.randn(70, 33, 67).to("densecore")
    long = torch.randn(19, 1031).to("densecore").requires_grad_()

    def run():
        results = []
        for f, dim in product((torch.softmax, torch.log_softmax), (0, 1, 2)):
            y = f(x, dim)
            results.append((y, *torch.autograd.grad(y, x, grad)))
        for f in (torch.softmax, torch.log_softmax):  # rows of which fewer are read at once
            y = f(long, 1)
            results.append((y, *torch.autograd.grad(y, long, long.detach())))
        return results, torch.ops.aten._safe_softmax(x, -1)

    assert_same_on_every_host(run)


BAD = {
    "dimension out of range": lambda x: torch.softmax(x, 2),
    "half to float": lambda x: torch.ops.aten._softmax(x, 1, True),
    "integers": lambda x: torch.ops.aten._log_softmax(x.to(torch.int64), 1, False),
    "gradient of another shape": lambda x: torch.ops.aten._softmax_backward_data(x, x[:1], 1, torch.float32),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    assert_same_error(lambda device: BAD[name](torch.randn(2, 3, device=device)))


def test_scalars_empty_tensors_and_out():
    for op in OPS:
        f = getattr(torch.ops.aten, op)
        for shape, dim in (((), 0), ((), -1), ((0, 3), 1), ((3, 0), 1), ((3, 0, 2), 0)):
            x = torch.randn(shape)
            assert torch.equal(f(x.to("densecore"), dim, False).cpu(), f(x, dim, False))
        x = torch.randn(4, 5, device="densecore")
        into = torch.full((4, 10), -1.0, device="densecore")
        f.out(x, 1, False, out=into[:, ::2])
        into_host = torch.full((4, 10), -1.0)
        f.out(x.cpu(), 1, False, out=into_host[:, ::2])
        assert torch.allclose(into.cpu(), into_host)  # torch ignores the strides of this output: its elements lie together
