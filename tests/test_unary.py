"""Functions of one operand and pow: against digests of the reference's results, against the reference itself (marked oracle),
across hosts, and against torch's CPU ops for forms, dtypes and errors."""

from __future__ import annotations

import pytest
import torch
from elementwise import assert_matches_the_reference, golden_of, one_nan, quick_calls, read_golden, sweep_calls
from hosts import assert_same_on_every_host

from torch_densecore.certify import inputs
from torch_densecore.certify.comparison import transfer

NAMES = (
    "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 log log10 log1p log2 logit sigmoid sin sinc sinh sqrt tan "
    "tanh"
).split()
EXPONENTS = (0, 1, 0.5, 2, 3, -0.5, -1, -2, 1.7, -3, 4, 0.0, 2.0, float("inf"))
# case: op, number of tensors, other arguments, keyword arguments
CASES = {
    **{name: (f"aten::{name}", 1, (), {}) for name in NAMES},
    "logit eps": ("aten::logit", 1, (1e-3,), {}),
    **{f"pow {e}": ("aten::pow.Tensor_Scalar", 1, (e,), {}) for e in EXPONENTS},
    "pow": ("aten::pow.Tensor_Tensor", 2, (), {}),
}


def run(op: str, *args, **kwargs) -> torch.Tensor:
    name, _, overload = op.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")(*transfer(args, "densecore"), **kwargs).cpu()


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
def test_pow_of_a_number_matches_the_reference():
    for base in (2.3, 10, 1, -2.0, 0.0):
        calls = [call for call in quick_calls(1, (), {})]
        swapped = [type(call)((base, *call.args), call.kwargs, call.threads) for call in calls]
        assert_matches_the_reference("aten::pow.Scalar", swapped)


@pytest.mark.parametrize("name", NAMES)
def test_host_threads_and_isa_do_not_matter(name):
    x = inputs.values(torch.float32, 70001, 3).to("densecore")
    rows = inputs.tensor((37, 501), torch.float32, 4, "mixed", "strided").to("densecore")
    op = getattr(torch.ops.aten, name)
    assert_same_on_every_host(lambda: (one_nan(op(x)), one_nan(op(rows))))


def test_pow_is_the_same_on_every_host():
    x, y = (inputs.values(torch.float32, 40001, seed).to("densecore") for seed in (1, 2))
    assert_same_on_every_host(lambda: [one_nan(torch.pow(x, y)), *(one_nan(torch.pow(x, e)) for e in EXPONENTS)])


@pytest.mark.parametrize("name", NAMES)
def test_forms_agree(name):
    x = inputs.values(torch.float32, 1003, 9, "unit").to("densecore")
    expected = getattr(torch.ops.aten, name)(x)
    in_place = x.clone()
    assert getattr(torch.ops.aten, f"{name}_")(in_place) is in_place
    out = torch.empty(0, device="densecore")
    getattr(torch.ops.aten, name).out(x, out=out)
    wide = torch.empty(0, dtype=torch.float64, device="densecore")
    for result in (in_place, out):
        torch.testing.assert_close(result.cpu(), expected.cpu(), rtol=0, atol=0, equal_nan=True)
    if name != "logit":
        getattr(torch.ops.aten, name).out(x, out=wide)
        torch.testing.assert_close(wide.cpu(), expected.cpu().double(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", NAMES)
def test_integers_become_float(name, dtype):
    x = inputs.values(dtype, 203, 1)
    got = getattr(torch.ops.aten, name)(x.to("densecore"))
    as_float = getattr(torch.ops.aten, name)(x.float().to("densecore"))
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.cpu(), as_float.cpu(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_near_torchs(name):
    x = inputs.values(torch.float32, 2003, 2, "normal")
    got = getattr(torch.ops.aten, name)(x.to("densecore")).cpu()
    torch.testing.assert_close(got, getattr(torch.ops.aten, name)(x), equal_nan=True, rtol=2e-6, atol=2e-6)


BAD = {
    "in place on integers": lambda d: torch.ops.aten.exp_(torch.ones(3, dtype=torch.int64, device=d)),
    "integer output": lambda d: torch.exp(torch.ones(3, device=d), out=torch.ones(3, dtype=torch.int64, device=d)),
    "overlapping output": lambda d: torch.exp(torch.ones(5, device=d), out=torch.ones(1, device=d).expand(5)),
    "pow of different sizes": lambda d: torch.pow(torch.ones(3, device=d), torch.ones(4, device=d)),
    "negative integer power": lambda d: torch.pow(torch.ones(3, dtype=torch.int64, device=d), -2),
    "in place pow on integers": lambda d: torch.ones(3, dtype=torch.int64, device=d).pow_(0.5),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    raised = []
    for device in ("cpu", "densecore"):
        with pytest.raises(Exception) as error:
            BAD[name](device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]
