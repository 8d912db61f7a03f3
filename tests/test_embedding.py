"""embedding and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare

D = "densecore"
# rows, width, indices, padding: rows around ATen's grain of 1000, widths around vectors
CASES = [(5, 3, 40, -1), (5, 17, 40, 2), (65, 32, 256, -1), (1500, 5, 300, 7), (2500, 33, 4000, -1), (1, 1, 1, -1), (4, 8, 0, -1)]


def case(rows: int, width: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows + width)
    return torch.randn(count, width), torch.randint(0, rows, (count,))


def in_order(grad: torch.Tensor, index: torch.Tensor, rows: int, padding: int) -> torch.Tensor:
    table = np.zeros((rows, grad.shape[1]), np.float32)
    for row, place in zip(grad.numpy(), index.tolist(), strict=True):
        if place != padding:
            table[place] += row
    return torch.from_numpy(table)


@pytest.mark.parametrize("rows, width, count, padding", CASES)
def test_gradients_are_added_in_the_order_of_the_indices(rows, width, count, padding):
    grad, index = case(rows, width, count)
    ours = torch.ops.aten.embedding_dense_backward(grad.to(D), index.to(D), rows, padding, False)
    assert torch.equal(ours.cpu(), in_order(grad, index, rows, padding))


@pytest.mark.oracle
@pytest.mark.parametrize("by_frequency", [False, True])
def test_matches_the_reference(by_frequency):
    calls = []
    for threads in (1, 3, 4, 8):
        for rows, width, count, padding in CASES:
            grad, index = case(rows, width, count)
            calls.append(Call((grad, index, rows, padding, by_frequency), threads=threads))
            calls.append(Call((grad.t().contiguous().t(), index.int(), rows, padding, by_frequency), threads=threads))
    assert compare("aten::embedding_dense_backward", calls).check().elements > 10000


def test_host_threads_and_isa_do_not_matter():
    grad, index = case(2500, 33, 4000)
    assert_same_on_every_host(
        lambda: [torch.ops.aten.embedding_dense_backward(grad.to(D), index.to(D), 2500, -1, f) for f in (False, True)]
    )


def test_training_through_an_embedding():
    results = []
    for device in ("cpu", D):
        torch.manual_seed(0)
        layer = torch.nn.Embedding(11, 6, padding_idx=3)
        layer.weight.data = torch.arange(66.0).view(11, 6) / 7
        layer = layer.to(device)
        index = torch.tensor([[1, 3, 1], [10, 0, 1]], device=device)
        layer(index).square().sum().backward()
        results.append(layer.weight.grad.cpu())
    assert torch.equal(*results)
