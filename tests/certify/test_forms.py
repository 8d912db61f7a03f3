"""Inputs of in-place, out and grad_input forms are made from those of the functional form."""

from __future__ import annotations

import pytest
import torch

from torch_densecore.certify import forms, specs
from torch_densecore.certify.comparison import Call


@pytest.mark.parametrize(
    ("form", "base"),
    [
        ("aten::exp_", "aten::exp"), ("aten::exp.out", "aten::exp"), ("aten::eq_.Scalar", "aten::eq.Scalar"),
        ("aten::sum.IntList_out", "aten::sum.dim_IntList"), ("aten::max.dim_max", "aten::max.dim"),
        ("aten::pow_.Scalar", "aten::pow.Tensor_Scalar"), ("aten::gelu_backward.grad_input", "aten::gelu_backward"),
        ("aten::sort.values_stable", "aten::sort.stable"), ("aten::nll_loss_forward.output", "aten::nll_loss_forward"),
    ],
)  # fmt: skip
def test_the_functional_form_is_found_by_its_arguments(form: str, base: str) -> None:
    assert forms.functional(form, specs.SPECS) == base


def test_functions_have_no_functional_form() -> None:
    assert forms.functional("aten::exp", specs.SPECS) is None
    assert forms.functional("aten::exp_", {}) is None


def calls(op: str) -> list[Call]:
    return [case() for case in specs.spec(op).cases(torch.float32, quick=True)]


def test_in_place_takes_the_same_arguments() -> None:
    for ours, base in zip(calls("aten::neg_"), calls("aten::neg"), strict=True):
        assert ours.args[0].shape == base.args[0].shape and ours.kwargs == base.kwargs == {}


def test_outputs_have_every_layout_and_the_results_dtype() -> None:
    made = calls("aten::eq.Tensor_out")
    written = [call.kwargs["out"] for call in made]
    assert all(out.dtype == torch.bool for out in written)
    result_shapes = [torch.broadcast_shapes(*(t.shape for t in call.args)) for call in made]
    assert all(out.shape == shape or out.numel() == 0 for out, shape in zip(written, result_shapes, strict=True))
    strided = [not out.is_contiguous() for out in written]
    resized = [out.numel() == 0 < shape.numel() for out, shape in zip(written, result_shapes, strict=True)]
    assert any(strided) and not all(strided) and any(resized)


def test_several_outputs() -> None:
    for call in calls("aten::max.dim_max"):
        assert set(call.kwargs) == {"max", "max_values"}
        assert call.kwargs["max"].dtype == torch.float32 and call.kwargs["max_values"].dtype in (torch.int64, torch.float32)
