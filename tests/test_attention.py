"""Flash attention: against the reference wheel (marked oracle), against torch's CPU op for errors, and across hosts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare
from torch_densecore.certify.comparison import transfer

Cases = Iterable[tuple[list[torch.Tensor], bool, dict]]
FORWARD = "aten::_scaled_dot_product_flash_attention_for_cpu"
BACKWARD = "aten::_scaled_dot_product_flash_attention_for_cpu_backward"

# batch, heads, queries, keys, head size: query blocks of 32, 64 and 256 rows and their edges, key blocks of 512, scalar tails of 1
# to 3 columns, head sizes off the lanes, products below Accelerate's small-shape switch
SHAPES = [
    (1, 1, 1, 1, 1), (1, 2, 1, 1, 16), (2, 1, 3, 9, 4), (1, 1, 7, 7, 3), (1, 1, 9, 2, 5), (1, 2, 5, 5, 64), (1, 1, 31, 33, 15),
    (2, 2, 33, 65, 16), (1, 2, 72, 72, 64), (1, 3, 96, 50, 33), (1, 2, 191, 193, 32), (1, 1, 192, 64, 8), (1, 1, 200, 200, 16),
    (1, 1, 37, 1030, 12), (1, 1, 32, 515, 7), (1, 1, 1, 700, 64), (1, 1, 224, 513, 16), (1, 1, 768, 513, 8), (1, 1, 800, 600, 8),
]  # fmt: skip
QUICK = [SHAPES[i] for i in (1, 2, 5, 7, 8, 10, 14)]


def tensors(shape: tuple[int, ...], seed: int, special: bool = False) -> list[torch.Tensor]:
    """query, key, value and grad_out, two of them [batch, row, head, head_size] in memory."""
    batch, heads, queries, keys, d = shape
    generator = torch.Generator().manual_seed(seed)

    def make(rows: int, swapped: bool) -> torch.Tensor:
        sizes = (batch, rows, heads, d) if swapped else (batch, heads, rows, d)
        x = torch.randn(sizes, generator=generator) * 2
        if special:
            at = torch.randint(0, x.numel(), (4,), generator=generator)
            x.view(-1)[at] = torch.tensor([math.inf, -math.inf, math.nan, 1e-40])
            x[..., 0] = -0.0
        return x.transpose(1, 2) if swapped else x

    return [make(queries, True), make(keys, False), make(keys, True), make(queries, True)]


def masks(shape: tuple[int, ...], seed: int) -> Iterator[torch.Tensor]:
    """A full mask, a broadcast one, and one of 0 and -inf with whole rows hidden."""
    batch, heads, queries, keys, _ = shape
    generator = torch.Generator().manual_seed(seed)
    yield torch.randn(queries, keys, generator=generator)
    yield torch.randn(batch, 1, queries, 1, generator=generator)
    hidden = torch.rand(batch, heads, queries, keys, generator=generator) < 0.3
    hidden[:, :, 0] = True
    yield torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)


def arguments(shapes: list[tuple[int, ...]]) -> Iterator[tuple[list[torch.Tensor], bool, dict]]:
    """Tensors, is_causal and keyword arguments of all the cases."""
    for index, shape in enumerate(shapes):
        for causal in (False, True):
            yield tensors(shape, index), causal, {}
            yield tensors(shape, index + 100, special=True), causal, {}
        yield tensors(shape, index + 200), True, {"scale": -0.75}
        yield tensors(shape, index + 200), False, {"scale": 0.0}
        for mask in masks(shape, index):
            yield tensors(shape, index + 300), False, {"attn_mask": mask}
        yield tensors(shape, index + 300), True, {"attn_mask": next(masks(shape, index))}


def grouped(shape: tuple[int, ...], key_heads: int, seed: int) -> list[torch.Tensor]:
    """query, key, value and grad_out where several heads of queries share one of keys."""
    query, key, value, grad = tensors(shape, seed)
    return [query, key[:, :key_heads], value[:, :key_heads], grad]


def overlapping(shape: tuple[int, ...], seed: int) -> Iterator[list[torch.Tensor]]:
    """Rows that BLAS does not take: one row repeated, as query, key or value, and rows that overlap."""
    batch, heads, queries, keys, d = shape
    query, key, value, grad = tensors(shape, seed)
    yield [query[:, :, :1].expand_as(query), key, value, grad]
    yield [query, key[:, :, :1].expand_as(key), value, grad]
    yield [query, key, value[:, :, :1].expand_as(value), grad]
    rows = torch.randn(batch, heads, keys + d, generator=torch.Generator().manual_seed(seed)).as_strided(
        key.shape, (heads * (keys + d), keys + d, 1, 1)
    )
    yield [query, rows, rows, grad]


GROUPED = [((1, 4, 5, 5, 8), 2), ((2, 6, 40, 70, 16), 2), ((2, 6, 70, 33, 32), 1), ((1, 4, 200, 530, 16), 2)]
OVERLAPPING = [(1, 1, 1, 9, 4), (1, 2, 5, 7, 5), (1, 2, 40, 70, 16), (1, 1, 3, 9, 1)]


def layouts() -> Iterator[tuple[list[torch.Tensor], bool, dict]]:
    """Grouped heads and overlapping rows, causal and not; grouped heads with a mask too."""
    for index, (shape, key_heads) in enumerate(GROUPED):
        inputs = grouped(shape, key_heads, index)
        yield from ((inputs, causal, {}) for causal in (False, True))
        yield inputs, False, {"attn_mask": next(masks(shape, index))}
    for index, shape in enumerate(OVERLAPPING):
        yield from ((inputs, causal, {}) for inputs in overlapping(shape, index) for causal in (False, True))


def forward_calls(cases: Cases) -> Iterator[Call]:
    for (query, key, value, _), causal, kwargs in cases:
        yield Call((query, key, value, 0.0, causal), kwargs)


def backward_calls(cases: Cases) -> Iterator[Call]:
    """The backward call gets its forward results from the device, so that both sides see the same."""
    for (query, key, value, grad), causal, kwargs in cases:
        device = {k: v.to("densecore") if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, logsumexp = forward(*transfer((query, key, value), "densecore"), 0.0, causal, **device)
        yield Call((grad, query, key, value, out.cpu(), logsumexp.cpu(), 0.0, causal), kwargs)


@pytest.mark.oracle
def test_forward_matches_the_reference():
    assert compare(FORWARD, forward_calls(arguments(QUICK))).check().calls == 10 * len(QUICK)


@pytest.mark.oracle
def test_backward_matches_the_reference():
    compare(BACKWARD, backward_calls(arguments(QUICK))).check()


@pytest.mark.oracle
def test_grouped_heads_and_overlapping_rows_match_the_reference():
    compare(FORWARD, forward_calls(layouts())).check()
    compare(BACKWARD, backward_calls(layouts())).check()


@pytest.mark.slow
@pytest.mark.oracle
def test_sweep():
    compare(FORWARD, forward_calls(arguments(SHAPES))).check()
    compare(BACKWARD, backward_calls(arguments(SHAPES))).check()


HOSTS = {
    "plain": lambda: tensors((2, 3, 65, 65, 20), 7),
    "long": lambda: tensors((1, 1, 200, 200, 32), 7),
    "grouped": lambda: grouped((2, 6, 40, 70, 16), 2, 7),
    "overlapping": lambda: list(overlapping((1, 2, 40, 70, 16), 7))[-1],
}


@pytest.mark.parametrize("name", HOSTS)
def test_host_threads_and_isa_do_not_matter(name):
    def run():
        query, key, value, grad = transfer(HOSTS[name](), "densecore")
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        out, logsumexp = attention(query, key, value, 0.0, True)
        gradient = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        return out, logsumexp, gradient(grad, query, key, value, out, logsumexp, 0.0, True)

    assert_same_on_every_host(run)


BAD = {
    "three dimensions": lambda x: ((x[0], x[0], x[0]), {}),
    "head sizes": lambda x: ((x, x, x[..., :2]), {}),
    "dropout": lambda x: ((x, x, x, 0.5), {}),
    "mask of one dimension": lambda x: ((x, x, x), {"attn_mask": x[0, 0, 0]}),
    "mask sizes": lambda x: ((x, x, x), {"attn_mask": x[0, 0, :, :3]}),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu

    def call(device: str) -> None:
        args, kwargs = BAD[name](torch.randn(1, 2, 5, 4, device=device))
        op(*args, **kwargs)

    assert_same_error(call)


def test_a_group_is_a_whole_number_of_heads():
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    key = torch.randn(1, 2, 4, 8, device="densecore")
    with pytest.raises(RuntimeError, match="heads of query must be those of key or a multiple"):
        op(torch.randn(1, 3, 4, 8, device="densecore"), key, key)


@pytest.mark.parametrize("query, key", [((1, 1, 0, 4), (1, 1, 3, 4)), ((1, 1, 3, 4), (1, 1, 0, 4))])
def test_empty_lengths_are_refused(query, key):
    """The CPU op divides by zero there."""
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    k = torch.randn(key, device="densecore")
    with pytest.raises(RuntimeError, match="_scaled_dot_product_flash_attention_for_cpu.*must not be empty"):
        op(torch.randn(query, device="densecore"), k, k)


def test_rows_must_be_contiguous():
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    x = torch.randn(1, 1, 4, 5, device="densecore").transpose(2, 3)
    with pytest.raises(RuntimeError, match="last dimension .* contiguous"):
        op(x, x, x)
