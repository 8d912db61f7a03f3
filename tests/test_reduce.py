"""Reductions: against the reference wheel (marked oracle), across hosts, and against torch's CPU op for errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host

from torch_densecore import profile
from torch_densecore.certify import Call, compare
from torch_densecore.certify.inputs import CHUNK_EDGES, GRAIN, THREADS, seed_of, tensor

# Around vectors of 4, blocks of 16 columns, cascade runs of 16 elements and of 16 blocks
SIZES = (0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 67, 255, 256, 259, 1023, 1030, 4099)
MATRICES = [(r, c) for r in (1, 3, 4, 5, 17, 64, 66, 260) for c in (1, 3, 4, 5, 15, 16, 17, 19, 33, 64, 70)]
SUMS = ("sum.dim_IntList", "nansum", "mean.dim")
WHOLE = (*SUMS, "amax", "amin")
ORDERS = (2.0, 1.0, 0.0, float("inf"), float("-inf"), 3.0, 0.5, -1.5)


def dims_of(op: str, dims: list[int]) -> tuple[Any, ...]:
    """The arguments after the tensor."""
    return (2.0, dims) if op == "linalg_vector_norm" else (dims,)


def inputs_for(shape: tuple[int, ...], kind: str = "mixed", layout: str = "contiguous") -> torch.Tensor:
    return tensor(shape, torch.float32, seed_of(shape, kind, layout), kind, layout)


def flat_calls(op: str, sizes: tuple[int, ...] = SIZES) -> Iterator[Call]:
    """Whole vectors: normal values, so that sums are finite, and special ones; each at every layout."""
    for size, kind in product(sizes, ("normal", "wide", "mixed")):
        if size or op not in ("amax", "amin"):
            yield Call((inputs_for((size,), kind), *dims_of(op, [])))
    for layout in ("strided", "offset", "expanded"):
        yield Call((inputs_for((301,), "normal", layout), *dims_of(op, [0])))


def matrix_calls(op: str, shapes: list[tuple[int, int]] = MATRICES) -> Iterator[Call]:
    for shape, dim in product(shapes, (0, 1)):
        yield Call((inputs_for(shape, "normal"), *dims_of(op, [dim])))
    for layout, dim in product(("strided", "transposed", "expanded"), (0, 1)):
        for shape in ((17, 66), (66, 17), (5, 3)):
            yield Call((inputs_for(shape, "normal", layout), *dims_of(op, [dim])), {"keepdim": True})


def volume_calls(op: str) -> Iterator[Call]:
    """Three and four dimensions, several of them reduced, permuted ones too."""
    x = inputs_for((5, 18, 7), "normal")
    for dims, order in product(([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]), ((0, 1, 2), (2, 0, 1), (1, 0, 2))):
        yield Call((x.permute(order), *dims_of(op, dims)))
    yield Call((inputs_for((3, 4, 5, 6), "normal").permute(3, 1, 0, 2), *dims_of(op, [1, 3])), {"keepdim": True})


def chunk_calls(op: str, threads: tuple[int, ...], sizes: list[int]) -> Iterator[Call]:
    """What the profile's threads divide: elements of one output, or outputs."""
    for count, size in product(threads, sizes):
        yield Call((inputs_for((size,), "normal"), *dims_of(op, [])), threads=count)
    for count in threads:
        for shape, dims in (((256, 130), [0]), ((130, 256), [1]), ((70, 33, 17), [1]), ((3, 40, 300), [0, 2]), ((40000, 2), [0])):
            yield Call((inputs_for(shape, "normal"), *dims_of(op, dims)), threads=count)


def all_calls(op: str, quick: bool) -> Iterator[Call]:
    if quick:
        yield from flat_calls(op, (0, 1, 3, 5, 17, 67, 259, 1030))
        yield from matrix_calls(op, [(4, 19), (66, 33), (17, 3), (5, 70)])
        yield from volume_calls(op)
        yield from chunk_calls(op, (3, 4), [GRAIN + 1])
    else:
        yield from flat_calls(op)
        yield from matrix_calls(op)
        yield from volume_calls(op)
        yield from chunk_calls(op, THREADS, list(CHUNK_EDGES))
        yield from flat_calls(op, (70_000, 262_144, 300_001, 1 << 20))


REDUCED = (*WHOLE, "linalg_vector_norm", "var.correction", "std.correction", "var_mean.correction")


@pytest.mark.oracle
@pytest.mark.parametrize("op", REDUCED)
def test_matches_the_reference(op):
    assert compare(f"aten::{op}", all_calls(op, quick=True)).check().elements > 0


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("op", REDUCED)
def test_sweep(op):
    compare(f"aten::{op}", all_calls(op, quick=False)).check()


def prod_calls(sizes: tuple[int, ...]) -> Iterator[Call]:
    """Products near 1, so that they neither overflow nor vanish."""
    for size in sizes:
        yield Call((1 + inputs_for((size,), "unit") / 64 - 1 / 128, 0))
    for shape, dim, layout in product(((5, 70), (66, 17), (17, 3)), (0, 1), ("contiguous", "transposed", "strided")):
        yield Call((1 + inputs_for(shape, "unit", layout) / 64, dim))
    yield Call((1 + inputs_for((3, 40, 300), "unit") / 64, 1), threads=4)
    yield Call((1 + inputs_for((2 * GRAIN + 7,), "unit") / 1e5, 0), threads=3)


@pytest.mark.oracle
def test_prod_matches_the_reference():
    compare("aten::prod.dim_int", prod_calls(SIZES)).check()


@pytest.mark.oracle
@pytest.mark.parametrize("order", ORDERS)
def test_norm_orders_match_the_reference(order):
    calls = [Call((inputs_for((size,), kind), order)) for size in SIZES[1:] for kind in ("normal", "mixed")]
    calls += [Call((inputs_for((5, 18, 7), "normal"), order, dims)) for dims in ([0], [1], [2], [0, 2], [1, 2])]
    calls += [Call((inputs_for((2 * GRAIN + 7,), "normal", "strided"), order), threads=t) for t in (1, 3, 4)]
    compare("aten::linalg_vector_norm", calls).check()


@pytest.mark.oracle
@pytest.mark.parametrize("correction", (0, 1, 2.5))
def test_variance_corrections_match_the_reference(correction):
    calls = [Call((inputs_for((size,), "normal"), [0]), {"correction": correction}) for size in SIZES]
    calls += [Call((inputs_for((5, 18, 7), "normal"), dims), {"correction": correction}) for dims in ([0], [1], [0, 2])]
    for op in ("var", "std", "std_mean"):
        compare(f"aten::{op}.correction", calls).check()


@pytest.mark.oracle
def test_foreach_norm_matches_the_reference():
    shapes = [(65, 32), (32,), (96, 32), (32,), (), (1,), (3, 5), (65, 32), (2, 0), (7,), (300, 200)]
    tensors = [inputs_for(s, "normal") for s in shapes]
    tensors += [inputs_for((6, 8), "normal", layout) for layout in ("transposed", "strided")]
    calls = [Call((tensors, order), threads=t) for order in (2.0, 1.0) for t in (1, 4)]
    compare("aten::_foreach_norm.Scalar", calls).check()


@pytest.mark.oracle
def test_zeros_of_both_signs():
    """Of equal zeros the reference takes +0 in its vector code and the first in its scalar code."""
    x = torch.zeros(7, 67)
    x[:, ::3] = -0.0
    x[3, 1:] = -0.0
    for op in ("amax", "amin"):
        calls = [Call((x, dims)) for dims in ([0], [1], [0, 1])] + [Call((x[:, :5], [1])), Call((x.t(), [0]))]
        compare(f"aten::{op}", calls).check()
    for op in ("max", "min", "aminmax"):
        compare(f"aten::{op}", [Call((x,)), Call((x[3, 1:],)), Call((x[:, :3],)), Call((x[0, :2],))]).check()
        compare(f"aten::{op}", [Call((x[3].repeat(1000),), threads=3), Call((x.repeat(80, 3),), threads=4)]).check()


@pytest.mark.oracle
def test_other_dtypes_are_converted():
    x = torch.arange(-300, 300).view(20, 30)
    calls = [Call((x.to(dtype), [1]), {"dtype": torch.float32}) for dtype in (torch.int64, torch.uint8, torch.bool, torch.float64)]
    compare("aten::sum.dim_IntList", calls).check()
    compare("aten::mean.dim", calls).check()


def test_aminmax_is_min_and_max():
    x = inputs_for((7, 67), "normal").to("densecore")
    low, high = torch.ops.aten.aminmax(x, keepdim=True)
    out = torch.ops.aten.aminmax.out(x, min=torch.empty(0, device="densecore"), max=torch.empty(0, device="densecore"))
    assert low.shape == high.shape == (1, 1) and float(low) == float(x.min()) == float(out[0])
    assert float(high) == float(x.max()) == float(out[1])
    for ours, theirs in zip(torch.aminmax(x, dim=1), torch.aminmax(x.cpu(), dim=1), strict=True):
        assert torch.equal(ours.cpu(), theirs)


def test_host_threads_and_isa_do_not_matter():
    torch.manual_seed(0)
    x = (torch.randn(70, 33, 67) * 3).to("densecore")
    flat = (1 + torch.rand(3 * GRAIN + 5) / 1e5).to("densecore")

    def run():
        norms = [torch.linalg.vector_norm(x, order, dim) for order in ORDERS for dim in (0, 2, (0, 2), None)]
        sums = [f(x, dim=d) for f in (torch.sum, torch.mean, torch.amax, torch.var, torch.prod) for d in (0, 1, 2)]
        whole = [flat.sum(), flat.mean(), flat.var(), flat.prod(), flat.amin(), flat[::2].sum(), flat.max(), *torch.aminmax(x)]
        more = (torch.nansum, torch.amin, torch.std, torch.logsumexp, torch.cumsum, torch.cumprod)
        runs = [f(x, d) for f in more for d in (0, 2)]
        return norms, sums, whole, runs, torch._foreach_norm([x, flat, x[0], x[1]])

    assert_same_on_every_host(run)


def test_profile_threads_decide_the_partial_sums():
    """The profile's thread count, not the host's."""
    x = inputs_for((200_000,), "normal").to("densecore")
    sums = []
    for count in (1, 4):
        with profile.use(threads=count):
            sums.append(float(x.sum()))
    assert sums[0] != sums[1]


BAD = {
    "dimension out of range": lambda x: torch.sum(x, dim=2),
    "dimension twice": lambda x: torch.sum(x, dim=(0, 0)),
    "mean of integers": lambda x: torch.mean(x.to(torch.int64)),
    "norm of nothing": lambda x: torch.linalg.vector_norm(x[:0], float("inf")),
    "norm of integers": lambda x: torch.linalg.vector_norm(x.to(torch.int64)),
    "amax of nothing": lambda x: torch.amax(x[:0], dim=0),
    "out of another dtype": lambda x: torch.sum(x, dim=0, dtype=torch.float32, out=x.new_empty(3, dtype=torch.float64)),
    "prod out of range": lambda x: torch.prod(x, dim=5),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    assert_same_error(lambda device: BAD[name](torch.randn(2, 3, device=device)))


def test_out_variants():
    x = torch.randn(5, 7, device="densecore")
    out = torch.empty(0, device="densecore")
    for op in (torch.sum, torch.mean, torch.amax, torch.amin, torch.prod, torch.nansum):
        assert torch.equal(op(x, 1, out=out).cpu(), op(x, 1).cpu())
    into = torch.full((5, 2), -1.0, device="densecore")
    torch.sum(x, 1, out=into[:, 0])
    assert torch.equal(into[:, 0].cpu(), x.sum(1).cpu()) and (into[:, 1] == -1).all()


@pytest.mark.parametrize("size", [2, 5, 33])
@pytest.mark.parametrize("first", [0.0, -0.0])
def test_zeros_of_both_signs_in_an_extreme_of_doubles(size: int, first: float) -> None:
    """The oracle's answers: +0 is the maximum and -0 the minimum, whichever comes first."""
    x = torch.full((size,), -first, dtype=torch.float64)
    x[0] = first
    on_device = x.to("densecore")
    assert not torch.signbit(on_device.max().cpu()) and torch.signbit(on_device.min().cpu())
    least, greatest = torch.aminmax(on_device)
    assert torch.signbit(least.cpu()) and not torch.signbit(greatest.cpu())
