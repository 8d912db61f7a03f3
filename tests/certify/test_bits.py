"""Bit comparison: what counts as equal, distances, the first difference."""

from __future__ import annotations

import pytest
import torch

from torch_densecore.certify import bits

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_zeros_differ_and_nans_do_not(dtype: torch.dtype) -> None:
    a = torch.tensor([0.0, NAN, INF, 1.0], dtype=dtype)
    b = torch.tensor([-0.0, -NAN, INF, 1.0], dtype=dtype)
    assert bits.unequal(a, b).tolist() == [True, False, False, False]
    assert bits.unequal(a, torch.tensor([0.0, 1.0, -INF, NAN], dtype=dtype)).tolist() == [False, True, True, True]


def test_complex_components() -> None:
    a = torch.tensor([1 + 0j, complex(NAN, 1)])
    b = torch.tensor([complex(1, -0.0), complex(NAN, 1)])
    assert bits.unequal(a, b).tolist() == [True, False]
    assert bits.hexadecimal(a[:1]) == "3f800000 00000000"


def test_integers_and_bools() -> None:
    assert bits.same(torch.tensor([1, -1]), torch.tensor([1, -1]))
    assert not bits.same(torch.tensor([1]), torch.tensor([1], dtype=torch.int32))
    assert bits.unequal(torch.tensor([True, False]), torch.tensor([True, True])).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_distance(dtype: torch.dtype) -> None:
    one = torch.tensor([1.0, -1.0, 0.0, 1.0, NAN], dtype=dtype)
    up = torch.tensor([1.0 + torch.finfo(dtype).eps, -1.0, -0.0, NAN, NAN], dtype=dtype)
    assert bits.distance(one, up).tolist() == [1, 0, 0, torch.iinfo(torch.int64).max, 0]
    tiny = torch.nextafter(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)) if dtype.itemsize > 2 else None
    if tiny is not None:
        assert bits.distance(tiny, -tiny).item() == 2


def test_first_difference() -> None:
    a, b = torch.zeros(3, 4), torch.zeros(3, 4)
    b[1, 2], b[2, 0] = 1.0, -0.0
    count, first = bits.first_difference(0, a, b)
    assert count == 2 and first is not None and first.index == (1, 2)
    assert (first.ours, first.reference) == ("00000000", "3f800000")
    assert bits.first_difference(0, a, a) == (0, None)


def test_strided_and_empty() -> None:
    a = torch.arange(12.0).view(3, 4).t()
    assert bits.same(a, a.contiguous()) and bits.same(torch.empty(0, 3), torch.empty(0, 3))
