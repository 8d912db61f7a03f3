"""Random fills: against digests of the reference's results, against the reference itself (marked oracle), across hosts, and against
torch's CPU ops for streams, layouts and errors."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare

GOLDEN = Path(__file__).parent / "random_golden.json"
D = "densecore"
# both sides of normal_'s block of 16, of a generator block (624 words) and of the kernels' own block of 1024 draws
SIZES = (0, 1, 2, 15, 16, 17, 31, 33, 311, 313, 623, 625, 1023, 1025, 5003)

# name: op and the arguments after self
FILLS = {
    "uniform_": ("aten::uniform_", (-0.3, 1.7)),
    "normal_": ("aten::normal_", (0.1, 0.02)),
    "exponential_": ("aten::exponential_", (1.3,)),
    "log_normal_": ("aten::log_normal_", (0.5, 1.3)),
    "cauchy_": ("aten::cauchy_", (0.5, 1.3)),
    "geometric_": ("aten::geometric_", (0.3,)),
    "bernoulli_": ("aten::bernoulli_.float", (0.2,)),
    "random_": ("aten::random_", ()),
    "random_ from to": ("aten::random_.from", (-5, 1000)),
}


def overload(op: str):
    name, _, kind = op.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), kind or "default")


def draw(call, sizes=SIZES) -> str:
    """Digest of the values and of the generator's state after each of `call(size)`."""
    torch.manual_seed(3)
    digest = hashlib.sha256()
    for size in sizes:
        digest.update(call(size).cpu().contiguous().numpy().tobytes())
        digest.update(torch.get_rng_state().numpy().tobytes())
    return digest.hexdigest()[:16]


def fills(empty) -> dict[str, str]:
    """Digest by name of every fill of tensors that `empty(size)` makes."""
    return {name: draw(lambda size, op=op, rest=rest: overload(op)(empty(size), *rest)) for name, (op, rest) in FILLS.items()}


def test_values_and_generator_state_equal_the_reference_digests():
    """The digests come from the reference wheel: `python tests/write_random_golden.py`."""
    assert fills(lambda size: torch.empty(size, device=D)) == json.loads(GOLDEN.read_text(encoding="utf-8"))


def reference_calls(rest):
    for size in SIZES:
        yield Call((torch.empty(size), *rest), seed=size)
    for seed, shape in enumerate([(3, 7), (40, 9), (5, 6, 4)]):
        yield Call((torch.empty(shape).transpose(0, 1), *rest), seed=seed)  # dense, filled in memory order
        yield Call((torch.empty((*shape[:-1], 2 * shape[-1]))[..., ::2], *rest), seed=seed)


@pytest.mark.oracle
@pytest.mark.parametrize("name", FILLS)
def test_matches_the_reference(name):
    op, rest = FILLS[name]
    assert compare(op, reference_calls(rest)).check().calls > 20


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool, torch.int64])
def test_bernoulli_by_tensor_matches_the_reference(dtype):
    torch.manual_seed(0)
    calls = [
        Call((torch.empty(shape, dtype=dtype), torch.rand(p_shape, dtype=p_dtype)), seed=5)
        for shape, p_shape in [((700,), (700,)), ((7, 9), (9,)), ((7, 9), ())] for p_dtype in (torch.float32, torch.float64)
    ]  # fmt: skip
    calls += [Call((torch.empty(9, 7, dtype=dtype).t(), torch.rand(7, 9)), seed=5)]
    assert compare("aten::bernoulli_.Tensor", calls).check().elements > 1000


@pytest.mark.oracle
@pytest.mark.parametrize("samples, replacement", [(1, False), (1, True), (5, False), (9, True)])
def test_multinomial_matches_the_reference(samples, replacement):
    torch.manual_seed(0)
    weights = [torch.rand(40), torch.rand(3, 65), torch.rand(50, 200).t(), torch.rand(7, 5) * (torch.eye(7, 5) == 0)]
    calls = [Call((w, min(samples, w.shape[-1]), replacement), seed=s) for w in weights for s in range(8)]
    assert compare("aten::multinomial", calls).check().elements > 0


@pytest.mark.oracle
def test_normal_with_tensor_parameters_matches_the_reference():
    mean, std = torch.randn(6, 33), torch.rand(33)
    cases = {
        "aten::normal.Tensor_float": (mean, 0.7),
        "aten::normal.float_Tensor": (0.3, std),
        "aten::normal.Tensor_Tensor": (mean, std),
    }
    for op, args in cases.items():
        assert compare(op, [Call(args, seed=s) for s in range(3)]).check().elements > 0


@pytest.mark.oracle
def test_native_dropout_matches_the_reference():
    x = torch.randn(37, 65)
    calls = [Call((x, p, train), seed=4) for p in (0.0, 0.15, 0.2, 1.0) for train in (True, False, None)]
    assert compare("aten::native_dropout", calls).check().elements > 0


def test_host_threads_and_isa_do_not_matter():
    def run():
        return [torch.tensor(list(digest.encode())) for digest in fills(lambda size: torch.empty(size, device=D)).values()]

    assert_same_on_every_host(run)


def test_integers_and_masks_are_the_cpus_stream():
    """Draws that no arithmetic can change: the host's own op is a reference too."""
    for call in (
        lambda d: torch.randint(0, 1000, (4097,), device=d),
        lambda d: torch.randint(0, 1 << 40, (100,), device=d),
        lambda d: torch.randperm(1000, device=d),
        lambda d: torch.empty(4097, device=d).bernoulli_(0.3),
        lambda d: torch.empty(4097, dtype=torch.bool, device=d).bernoulli_(0.7),
        lambda d: torch.rand(4097, device=d),
    ):
        results = []
        for device in ("cpu", D):
            torch.manual_seed(11)
            results.append((call(device).cpu(), torch.get_rng_state()))
        assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


def test_a_generator_of_its_own_leaves_the_default_alone():
    before = torch.get_rng_state()
    generator = torch.Generator(D).manual_seed(5)
    values = torch.empty(100, device=D).normal_(generator=generator)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(5)
    assert torch.equal(values.cpu(), torch.empty(100, device=D).normal_().cpu())


def test_the_second_normal_sample_is_kept():
    torch.manual_seed(1)
    together = torch.empty(6, device=D).normal_().cpu()
    torch.manual_seed(1)
    parts = torch.cat([torch.empty(n, device=D).normal_() for n in (1, 2, 3)]).cpu()
    assert torch.equal(together, parts)


BAD = {
    "negative std": lambda d: torch.empty(3, device=d).normal_(0, -1),
    "uniform of an empty range": lambda d: torch.empty(3, device=d).uniform_(2, 1),
    "uniform of an infinite range": lambda d: torch.empty(3, device=d).uniform_(0, float("inf")),
    "p above 1": lambda d: torch.empty(3, device=d).bernoulli_(1.5),
    "a p above 1": lambda d: torch.empty(3, device=d).bernoulli_(torch.tensor([0.5, 2.0, 0.1], device=d)),
    "p of another shape": lambda d: torch.empty(3, device=d).bernoulli_(torch.full((4,), 0.5, device=d)),
    "rate 0": lambda d: torch.empty(3, device=d).exponential_(0),
    "geometric p of 1": lambda d: torch.empty(3, device=d).geometric_(1),
    "cauchy scale 0": lambda d: torch.empty(3, device=d).cauchy_(0, 0),
    "overlapping output": lambda d: torch.empty(1, device=d).expand(3).normal_(),
    "negative weight": lambda d: torch.multinomial(torch.tensor([0.1, -1.0], device=d), 1),
    "no weight": lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    "more samples than weights": lambda d: torch.multinomial(torch.ones(3, device=d), 4),
    "no samples": lambda d: torch.multinomial(torch.ones(3, device=d), 0),
    "random_ without a range": lambda d: torch.empty(3, device=d).random_(5, 5),
    "negative std in a tensor": lambda d: torch.normal(0.0, torch.tensor([1.0, -1.0], device=d)),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name):
    raised = []
    for device in ("cpu", D):
        with pytest.raises(Exception) as error:
            BAD[name](device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]
