"""Activations and their derivatives: against digests of the reference's results, against the reference itself (marked oracle),
across hosts, and against torch's CPU ops for forms and errors."""

from __future__ import annotations

import pytest
import torch
from elementwise import assert_matches_the_reference, golden_of, one_nan, operands, quick_calls, read_golden, sweep_calls
from hosts import assert_same_on_every_host
from test_unary import run

from torch_densecore.certify import Call, inputs

TANH = {"approximate": "tanh"}
# case: op, number of tensors, other arguments, keyword arguments
CASES = {
    "gelu": ("aten::gelu", 1, (), {}),
    "gelu tanh": ("aten::gelu", 1, (), TANH),
    "gelu_backward": ("aten::gelu_backward", 2, (), {}),
    "gelu_backward tanh": ("aten::gelu_backward", 2, (), TANH),
    "silu": ("aten::silu", 1, (), {}),
    "silu_backward": ("aten::silu_backward", 2, (), {}),
    "mish": ("aten::mish", 1, (), {}),
    "mish_backward": ("aten::mish_backward", 2, (), {}),
    "tanh_backward": ("aten::tanh_backward", 2, (), {}),
    "softplus": ("aten::softplus", 1, (1.3, 5.0), {}),
    "softplus_backward": ("aten::softplus_backward", 2, (1.3, 5.0), {}),
    "elu": ("aten::elu", 1, (1.3, 0.7, 1.1), {}),
    "softshrink": ("aten::softshrink", 1, (0.5,), {}),
    "softshrink_backward": ("aten::softshrink_backward", 2, (0.5,), {}),
    "hardshrink_backward": ("aten::hardshrink_backward", 2, (0.5,), {}),
    "hardtanh_backward": ("aten::hardtanh_backward", 2, (-1.0, 1.0), {}),
    "hardswish_backward": ("aten::hardswish_backward", 2, (), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_bits_equal_the_reference_digest(case):
    """The digests come from the reference wheel: `python tests/write_elementwise_golden.py`."""
    assert golden_of(run, {case: CASES[case]}) == {case: read_golden()[case]}


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_matches_the_reference(case):
    op, count, rest, kwargs = CASES[case]
    assert_matches_the_reference(op, quick_calls(count, rest, kwargs))


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_sweep(case):
    op, count, rest, kwargs = CASES[case]
    assert_matches_the_reference(op, sweep_calls(count, rest, kwargs))


@pytest.mark.oracle
@pytest.mark.parametrize("is_result", [False, True])
def test_elu_backward_matches_the_reference(is_result):
    calls = [Call((c.args[0], 1.3, 0.7, 1.1, is_result, c.args[1]), {}, c.threads) for c in quick_calls(2, (), {})]
    assert_matches_the_reference("aten::elu_backward", iter(calls))


@pytest.mark.oracle
def test_glu_and_log_sigmoid_match_the_reference():
    shapes = [(2,), (6, 9), (3, 34), (4, 5, 30), (130, 7), (64, 1034)]
    glu = [Call((*operands(1, shape, 3, "mixed", layout), dim)) for shape in shapes for layout in ("contiguous", "strided")
           for dim in range(len(shape)) if shape[dim] % 2 == 0]  # fmt: skip
    assert_matches_the_reference("aten::glu", iter(glu * 2))
    assert_matches_the_reference("aten::log_sigmoid_forward", quick_calls(1, (), {}))


@pytest.mark.parametrize("case", CASES)
def test_host_threads_and_isa_do_not_matter(case):
    op, count, rest, kwargs = CASES[case]
    large, rows = operands(count, (70001,), 1, "mixed"), operands(count, (41, 333), 2, "mixed", "transposed")
    assert_same_on_every_host(lambda: [one_nan(run(op, *x, *rest, **kwargs)) for x in (large, rows)])


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "elu"])
def test_forms_agree(name):
    x = inputs.values(torch.float32, 1003, 9).to("densecore")
    expected = getattr(torch.ops.aten, name)(x)
    in_place, out = x.clone(), torch.empty(0, device="densecore")
    getattr(torch.ops.aten, f"{name}_")(in_place)
    getattr(torch.ops.aten, name).out(x, out=out)
    for result in (in_place, out):
        torch.testing.assert_close(result.cpu(), expected.cpu(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "elu", "softplus", "logsigmoid", "glu", "tanh", "sigmoid", "hardswish"])
def test_gradients_reach_the_input(name):
    """Through autograd, near torch's own."""
    grads = []
    for device in ("cpu", "densecore"):
        x = inputs.tensor((6, 20), torch.float32, 5, "normal").to(device).requires_grad_()
        getattr(torch.nn.functional, name)(x).square().sum().backward()
        grads.append(x.grad.cpu())
    torch.testing.assert_close(*grads, rtol=1e-5, atol=2e-6)


BAD = {
    "gelu's approximation": lambda d: torch.nn.functional.gelu(torch.ones(3, device=d), approximate="fast"),
    "gelu of integers": lambda d: torch.nn.functional.gelu(torch.ones(3, dtype=torch.int64, device=d)),
    "odd glu": lambda d: torch.nn.functional.glu(torch.ones(3, device=d)),
    "glu of a number": lambda d: torch.nn.functional.glu(torch.ones((), device=d)),
    "negative lambda": lambda d: torch.nn.functional.softshrink(torch.ones(3, device=d), -1.0),
    "elu backward from a result of negative slope": lambda d: torch.ops.aten.elu_backward(
        torch.ones(3, device=d), -1.0, 1.0, 1.0, True, torch.ones(3, device=d)
    ),
    "sizes of a gradient": lambda d: torch.ops.aten.silu_backward(torch.ones(3, device=d), torch.ones(4, device=d)),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    raised = []
    for device in ("cpu", "densecore"):
        with pytest.raises(Exception) as error:
            BAD[name](device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]
