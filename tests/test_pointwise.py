"""Binary and ternary arithmetic, minimum, maximum and clamps, conversions: against digests of the reference's results, against the
reference itself (marked oracle), across hosts, and against torch's CPU ops for forms, promotion and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from elementwise import assert_matches_the_reference, golden_of, operands, quick_calls, sweep_calls
from hosts import assert_same_on_every_host
from test_unary import run

from torch_densecore.certify import Call, inputs

GOLDEN = Path(__file__).parent / "pointwise_golden.json"
D = "densecore"
NAN, ZERO = float("nan"), 0.0
# case: op, number of tensors, other arguments, keyword arguments
CASES = {
    "add": ("aten::add.Tensor", 2, (), {}),
    "add alpha": ("aten::add.Tensor", 2, (), {"alpha": 2.5}),
    "sub alpha": ("aten::sub.Tensor", 2, (), {"alpha": 0.3}),
    "rsub alpha": ("aten::rsub.Tensor", 2, (), {"alpha": 0.3}),
    "add number": ("aten::add.Scalar", 1, (0.377, 0.73), {}),
    "addcmul": ("aten::addcmul", 3, (), {"value": 0.1}),
    "addcdiv": ("aten::addcdiv", 3, (), {"value": -0.001}),
    "lerp small": ("aten::lerp.Scalar", 2, (0.1,), {}),
    "lerp large": ("aten::lerp.Scalar", 2, (0.9,), {}),
    "lerp tensor": ("aten::lerp.Tensor", 3, (), {}),
    "maximum": ("aten::maximum", 2, (), {}),
    "minimum": ("aten::minimum", 2, (), {}),
    "fmax": ("aten::fmax", 2, (), {}),
    "fmin": ("aten::fmin", 2, (), {}),
    "clamp": ("aten::clamp", 1, (-0.5, 0.5), {}),
    "clamp at zero": ("aten::clamp_min", 1, (ZERO,), {}),
    "clamp below minus zero": ("aten::clamp_max", 1, (-ZERO,), {}),
    "clamp tensors": ("aten::clamp.Tensor", 3, (), {}),
    "relu": ("aten::relu", 1, (), {}),
    "hardtanh": ("aten::hardtanh", 1, (ZERO, 6.0), {}),
}


def test_bits_equal_the_reference_digests():
    """The digests come from the reference wheel: `python tests/write_pointwise_golden.py`."""
    assert golden_of(run, CASES) == json.loads(GOLDEN.read_text(encoding="utf-8"))


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


def pairs_of_specials(dtype: torch.dtype) -> list[torch.Tensor]:
    """Every pair of special values, eight times each: a slice from any element has all of them in vectors and some in its tail."""
    values = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, float("inf"), -float("inf"), 1e-45, 3e38], dtype=dtype)
    left, right = torch.cartesian_prod(values, values).T
    return [left.repeat_interleave(8), right.repeat_interleave(8)]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["maximum", "minimum", "fmax", "fmin", "clamp_min.Tensor", "clamp_max.Tensor"])
def test_zeros_and_nans_match_the_reference(op, dtype):
    left, right = pairs_of_specials(dtype)
    calls = [Call((left[start:].clone(), right[start:].clone())) for start in range(24)]
    calls += [Call((left[::3], right[::3]))]
    assert_matches_the_reference(f"aten::{op}", iter(calls))


@pytest.mark.oracle
@pytest.mark.parametrize("target", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("source", [torch.float32, torch.float64])
def test_conversions_to_integers_match_the_reference(source, target):
    edges = [0.5, -1.5, 127.5, 128.0, -129.0, 255.9, 256.0, 32768.0, -32769.0, 2147483648.0, -2147483904.0, 4294967296.0, 5e9, -5e9]
    edges += [9.2e18, 9.3e18, -9.3e18, 1e30, -1e30, float("inf"), -float("inf"), NAN]
    values = torch.tensor(edges * 12, dtype=torch.float64).to(source)
    calls = [Call((torch.empty(size, dtype=target), values[:size].clone())) for size in (*range(1, 20), 33, 97, len(values))]
    calls += [Call((torch.empty(40, dtype=target), values[:80:2])), Call((torch.empty(80, dtype=target)[::2], values[:40].clone()))]
    assert_matches_the_reference("aten::copy_", iter(calls))


@pytest.mark.parametrize("case", CASES)
def test_host_threads_and_isa_do_not_matter(case):
    op, count, rest, kwargs = CASES[case]
    inputs_of = operands(count, (70001,), 1, "mixed"), operands(count, (41, 333), 2, "mixed", "transposed")

    def results():  # which NaN comes out of two is not part of the contract
        return [torch.nan_to_num(run(op, *tensors, *rest, **kwargs), NAN, float("inf"), -float("inf")) for tensors in inputs_of]

    assert_same_on_every_host(results)


FORMS = {
    "add": (2, (), {"alpha": 0.3}),
    "sub": (2, (), {"alpha": 0.3}),
    "addcmul": (3, (), {"value": 0.3}),
    "addcdiv": (3, (), {"value": 0.3}),
    "lerp": (2, (0.3,), {}),
    "clamp": (1, (-0.5, 0.5), {}),
    "clamp_min": (1, (0.0,), {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_agree(name):
    count, rest, kwargs = FORMS[name]
    first, *others = (x.to(D) for x in operands(count, (1003,), 9, "mixed"))
    function = getattr(torch, name)
    expected = function(first, *others, *rest, **kwargs)
    in_place = first.clone()
    getattr(in_place, f"{name}_")(*others, *rest, **kwargs)
    out = torch.empty(0, device=D)
    function(first, *others, *rest, **kwargs, out=out)
    wide = torch.empty(0, dtype=torch.float64, device=D)
    function(first, *others, *rest, **kwargs, out=wide)
    for result in (in_place, out, wide.float()):
        torch.testing.assert_close(result.cpu(), expected.cpu(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: torch.ones(3, device=d) + torch.arange(3, device=d),
        lambda d: torch.arange(3, device=d) + 0.5,
        lambda d: torch.arange(3, device=d).add(torch.ones(3, dtype=torch.float64, device=d), alpha=2),
        lambda d: torch.ones(3, dtype=torch.float64, device=d) - torch.ones((), device=d),
        lambda d: torch.ones(3, device=d) + torch.tensor(2.0, dtype=torch.float64),
        lambda d: torch.maximum(torch.arange(3, device=d), torch.ones(3, device=d)),
        lambda d: torch.clamp(torch.arange(3, device=d), 0.5),
        lambda d: torch.clamp(torch.ones(3, device=d), NAN, 2),
        lambda d: torch.addcmul(torch.ones(3, device=d), torch.arange(3, device=d), torch.ones(3, device=d)),
        lambda d: torch.ones(2, 3, device=d).t() + torch.ones(3, 1, device=d),
        lambda d: torch.relu(torch.arange(-2, 2, device=d)),
    ],
)
def test_promotion_and_layout_are_torchs(call):
    ours, theirs = call(D), call("cpu")
    assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
    torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True)


BAD = {
    "shapes": lambda d: torch.ones(3, device=d) + torch.ones(4, device=d),
    "bool alpha": lambda d: torch.add(torch.ones(3, device=d), torch.ones(3, device=d), alpha=True),
    "complex alpha": lambda d: torch.add(torch.ones(3, device=d), torch.ones(3, device=d), alpha=1j),
    "subtraction of bool": lambda d: torch.ones(3, device=d) - torch.ones(3, dtype=torch.bool, device=d),
    "in-place promotion": lambda d: torch.ones(3, dtype=torch.int64, device=d).add_(torch.ones(3, device=d)),
    "in-place broadcast": lambda d: torch.ones(3, device=d).add_(torch.ones(2, 3, device=d)),
    "integer addcdiv": lambda d: torch.addcdiv(torch.ones(3, device=d), *2 * [torch.ones(3, dtype=torch.int64, device=d)]),
    "lerp of two dtypes": lambda d: torch.lerp(torch.ones(3, device=d), torch.ones(3, dtype=torch.float64, device=d), 0.5),
    "no bounds": lambda d: torch.clamp(torch.ones(3, device=d)),
    "overlapping output": lambda d: torch.ones(1, device=d).expand(3).add_(1),
    "output of integers": lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.ones(3, dtype=torch.int64, device=d)),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    raised = []
    for device in ("cpu", D):
        with pytest.raises(Exception) as error:
            BAD[name](device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]


@pytest.mark.oracle
def test_optimizer_steps_match_the_reference():
    """torch.optim's single-tensor mathematics, run op by op in the reference."""
    from torch_densecore.certify.comparison import oracle_for
    from torch_densecore.oracle.mode import OracleMode

    makers = {
        "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True, foreach=False),
        "Adam": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01, amsgrad=True, foreach=False),
        "AdamW": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
    }
    gradients = [inputs.tensor((37, 11), torch.float32, seed, "normal") for seed in range(4)]

    def train(maker, device: str) -> torch.Tensor:
        parameter = torch.nn.Parameter(inputs.tensor((37, 11), torch.float32, 99, "normal").to(device))
        optimizer = maker([parameter])
        for gradient in gradients:
            parameter.grad = gradient.to(device)
            optimizer.step()
        return parameter.detach().cpu()

    for name, maker in makers.items():
        with torch.no_grad(), OracleMode(oracle_for("2.13.0")):
            reference = train(maker, "cpu")
        assert torch.equal(train(maker, D), reference), name
