"""Inputs: deterministic, of the promised shape and layout, declared for real operators."""

from __future__ import annotations

import pytest
import torch

from torch_densecore.certify import bits, inputs, specs
from torch_densecore.certify.comparison import resolve
from torch_densecore.certify.families import BESIDE, IN_ORDER, STRIDED, Exhaustive, Sweep

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["normal", "mixed", "wide", "unit", "positive"])
def test_values_are_deterministic(dtype: torch.dtype, kind: str) -> None:
    first, again = (inputs.values(dtype, 100, 7, kind) for _ in range(2))
    assert first.dtype == dtype and first.shape == (100,) and bits.same(first, again)
    if dtype not in (torch.bool,):
        assert not bits.same(first, inputs.values(dtype, 100, 8, kind))


def test_known_words() -> None:
    """The same on every host: exact arithmetic from integers."""
    words = [bits.hexadecimal(v.reshape(1)) for v in inputs.values(torch.float32, 3, 1, "normal")]
    assert words == ["3f1f0cd0", "3f55c6b0", "bf7d9270"]


def test_specials_cover_the_edges() -> None:
    every = inputs.specials(torch.float32)
    assert every.isnan().any() and (every == float("inf")).any() and (every == -float("inf")).any()
    assert ((every == 0) & every.signbit()).any() and ((every.abs() > 0) & (every.abs() < torch.finfo(torch.float32).tiny)).any()


@pytest.mark.parametrize("layout", ["contiguous", *inputs.LAYOUTS])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4), (6,)])
def test_layouts(layout: str, shape: tuple[int, ...]) -> None:
    x = inputs.tensor(shape, torch.float32, 1, "normal", layout)
    assert tuple(x.shape) == shape
    if layout == "strided":
        assert x.stride(-1) == 2
    if layout == "offset":
        assert x.storage_offset() == 3
    if layout == "expanded":
        assert x.stride(0) == 0
    if layout == "transposed" and len(shape) > 1:
        assert x.stride(-2) == 1 and not x.is_contiguous()


def test_every_pattern() -> None:
    block = inputs.every_pattern(torch.float16, 0, 1 << 16)
    assert len(block.view(torch.int16).unique()) == 1 << 16
    assert bits.hexadecimal(inputs.every_pattern(torch.float32, 0x7F800000, 1)) == "7f800000"


@pytest.mark.parametrize("op", sorted(specs.SPECS))
def test_declared_operators_exist_and_build(op: str) -> None:
    spec = specs.spec(op)
    resolve(op)
    cases = spec.cases(spec.dtypes[0], quick=True)
    assert cases
    assert str(cases[0]()) == str(spec.cases(spec.dtypes[0], quick=True)[0]())


def test_unknown_operator_names_near_ones() -> None:
    with pytest.raises(KeyError, match="aten::add.Tensor"):
        specs.spec("add")
    with pytest.raises(ValueError, match="no exhaustive sweep"):
        specs.spec("aten::mm").cases(torch.float32, exhaustive=True)


def test_an_exhaustive_sweep_tries_every_pattern_in_every_pass() -> None:
    every = Exhaustive((IN_ORDER, STRIDED, BESIDE), block=5000)
    calls = [case() for case in every(Sweep("aten::sin", torch.float16))]
    per_pass = len(calls) // 3
    for how, part in zip(every.passes, (calls[i : i + per_pass] for i in range(0, len(calls), per_pass)), strict=True):
        words = torch.cat([call.args[0].view(torch.int16).clone() for call in part])
        assert len(words.unique()) == 1 << 16, how
        assert {call.args[0].is_contiguous() for call in part} == {how != STRIDED}
    assert every.describe() == ["in order", "strided", "beside 1000.0"]
    assert len(specs.spec("aten::exp").cases(torch.float32, exhaustive=True)) == 1366


@pytest.mark.parametrize("place", range(4))
def test_every_group_of_four_has_its_neighbour(place: int) -> None:
    x = torch.arange(7.0)
    groups = inputs.with_neighbour(x, -1.0, place).view(-1, 4)
    assert (groups[:, place] == -1).all()
    rest = groups[:, [i for i in range(4) if i != place]].flatten()
    assert rest.tolist() == [*x.tolist(), -1.0, -1.0]


def test_zeros_are_of_both_signs() -> None:
    zeros = inputs.values(torch.float32, 100, 1, "zeros")
    assert not zeros.any() and 20 < zeros.signbit().sum() < 80
