"""Ops that move, select, compare or count elements, on the device, against the reference: most are served by the host's kernel
(`exact` tier), sort and topk by kernels of ours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hosts import assert_same_on_every_host

from torch_densecore import registry
from torch_densecore.certify import Call, compare, element_specs, movement_specs, specs

OPS: list[str] = []
for family in (element_specs, movement_specs):
    family.declare(lambda op, family, dtypes: OPS.append(op))
D = "densecore"


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_matches_the_reference(op):
    for dtype in (torch.float32, torch.int64):
        if dtype in specs.spec(op).claimed():
            cases = specs.spec(op).cases(dtype, quick=True)
            report = compare(op, [build() for build in cases[1 :: max(5, len(cases) // 20)]]).check()
            assert report.elements > 0 or report.both_raised == report.calls  # integers that torch refuses


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_sweep(op):
    for dtype in specs.spec(op).claimed():
        compare(op, [build() for build in specs.spec(op).cases(dtype)]).check()


def tied(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Few distinct keys; among floats NaN and both zeros."""
    torch.manual_seed(seed)
    keys = torch.randint(0, 6, (count,)).to(dtype)
    if dtype.is_floating_point:
        keys[torch.rand(count) < 0.1] = float("nan")
        keys[torch.rand(count) < 0.1] = -0.0
    return keys


SHAPES_OF_KEYS = {
    "ties": tied,
    "equal": lambda count, dtype, seed: torch.full((count,), 3).to(dtype),
    "ascending": lambda count, dtype, seed: torch.arange(count).div(count // 50 + 1, rounding_mode="floor").to(dtype),
    "descending": lambda count, dtype, seed: (count - torch.arange(count)).div(count // 50 + 1, rounding_mode="floor").to(dtype),
    "up and down": lambda count, dtype, seed: (torch.arange(count) - count // 2).abs().remainder(99).to(dtype),
}
# around the limits of the library's algorithms: 3, 5, 7 (selection sort), 24 (insertion sort), 128 (ninther)
COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 23, 24, 25, 65, 128, 129, 130, 500, 2000)


@pytest.mark.oracle
@pytest.mark.parametrize("keys", SHAPES_OF_KEYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_order_of_equal_keys_matches_the_reference(keys, dtype):
    rows = [SHAPES_OF_KEYS[keys](count, dtype, count) for count in COUNTS]
    ways = [{"stable": stable, "descending": descending} for stable in (False, True) for descending in (False, True)]
    compare("aten::sort.stable", [Call((x,), way) for x in rows for way in ways]).check()
    topk = [
        Call((x, k, 0, largest, in_order))
        for x in rows for k in sorted({1, (len(x) + 1) // 2, max(1, len(x) // 64), len(x)}) for largest in (True, False)
        for in_order in (True, False)
    ]  # fmt: skip
    compare("aten::topk", topk).check()


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sort_and_topk_along_a_dimension(dim):
    """Distinct keys have one order, which is the host's too."""
    torch.manual_seed(0)
    x = torch.randperm(35).view(5, 7).float()
    for layout in (x, x.t().contiguous().t()):
        for call in (lambda t: torch.sort(t, dim, True), lambda t: torch.topk(t, 3, dim), lambda t: torch.kthvalue(t, 2, dim)):
            for ours, theirs in zip(call(layout.to(D)), call(layout), strict=True):
                assert torch.equal(ours.cpu(), theirs) and ours.stride() == theirs.stride()
        assert torch.equal(torch.argsort(layout.to(D), dim).cpu(), torch.argsort(layout, dim))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.topk(torch.ones(3, device=d), 4),
        lambda d: torch.topk(torch.ones(3, device=d), 1, 5),
        lambda d: torch.topk(torch.ones(3, dtype=torch.bool, device=d), 1),
        lambda d: torch.sort(torch.ones(3, device=d), 2),
        lambda d: torch.ones(3, device=d)[torch.tensor([3], device=d)],
        lambda d: torch.gather(torch.ones(3, device=d), 0, torch.tensor([-1], device=d)),
        lambda d: torch.index_select(torch.ones(3, device=d), 0, torch.tensor([7], device=d)),
        lambda d: torch.nn.functional.embedding(torch.tensor([5], device=d), torch.ones(3, 2, device=d)),
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    ],
)
def test_errors_are_those_of_the_cpu_op(call):
    raised = []
    for device in ("cpu", D):
        with pytest.raises(Exception) as error:
            call(device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_accumulation_at_one_place_is_in_order(threads):
    """Larger than a parallel chunk: threads that race would make the sum depend on the run."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        values, index = torch.randn(40000), torch.randint(0, 3, (40000,))
        expected = torch.tensor([sum_in_order(values[index == place]) for place in range(3)])
        ours = torch.zeros(3, device=D).index_put_((index.to(D),), values.to(D), accumulate=True)
        assert torch.equal(ours.cpu(), expected)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def sum_in_order(values: torch.Tensor) -> float:
    return float(np.add.accumulate(values.numpy(), dtype=np.float32)[-1])


def test_order_and_accumulation_are_the_same_on_every_host():
    keys, index = tied(3000, torch.float32, 1).view(3, 1000).to(D), torch.randint(0, 7, (40000,)).to(D)
    values, table = torch.randn(40000, 3).to(D), torch.randn(7, 3).to(D)

    def run():
        x = keys.nan_to_num(9)
        orders = [torch.sort(x, dim=1), torch.sort(x, dim=1, stable=True), torch.topk(x, 50)]
        places = index[:, None].expand(-1, 3)
        sums = [table.index_put((index,), values, accumulate=True), table.index_add(0, index, values)]
        sums += [table.scatter_add(0, places, values)]
        return orders, sums, [table.scatter_reduce(0, places, values, how) for how in ("sum", "prod", "mean", "amax")]

    assert_same_on_every_host(run)


def test_declared_tiers():
    topk = registry.get("aten::topk")
    assert topk.tier(torch.float32) == registry.KERNEL and topk.tier(torch.bfloat16) == registry.UNCERTIFIED
    assert registry.get("aten::gather").tier(torch.float32) == registry.EXACT
