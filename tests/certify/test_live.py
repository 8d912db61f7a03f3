"""On the device: a sample of the certificates compared again, the command, and shapes that hypothesis makes up."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_densecore import registry
from torch_densecore.certify import Call, certificates, compare, inputs, specs
from torch_densecore.cli import main

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(importlib.util.find_spec("torch_densecore._C") is None, reason="the extension is not built"),
]
SAMPLE = 3  # cases of each operator
ELEMENTWISE = ("aten::exp", "aten::tanh", "aten::add.Tensor", "aten::mul.Tensor", "aten::gelu")


def families() -> list[tuple[str, certificates.Certificate]]:
    """One certificate of each operator name that has a kernel, any of its forms and dtypes."""
    chosen: dict[str, list[certificates.Certificate]] = {}
    for certificate in certificates.load_all():
        if certificate.mode == "full" and registry.get(certificate.op).kernel:
            name = certificate.op.partition(".")[0].removesuffix("_")
            chosen.setdefault(name, []).append(certificate)
    return [(name, found[inputs.seed_of(name) % len(found)]) for name, found in chosen.items()]


@pytest.mark.parametrize(("name", "certificate"), families(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_sample_of_each_kernel(name: str, certificate: certificates.Certificate) -> None:
    cases = specs.spec(certificate.op).cases(getattr(torch, certificate.dtype))
    chosen = range(inputs.seed_of(certificate.op) % len(cases), len(cases), max(1, len(cases) // SAMPLE))
    compare(certificate.op, [cases[i]() for i in list(chosen)[:SAMPLE]], profile=certificate.profile["name"]).check()


def gaps(*shape: int) -> torch.Tensor:
    """A tensor to write to, whose elements are not side by side."""
    return torch.ones(*shape, 2)[..., 0]


ZEROS = inputs.values(torch.float32, 40000, 1, "zeros")
FOUND = {  # what a sweep once showed to differ
    "hardtanh keeps integers": ("aten::hardtanh", (torch.arange(-4, 5), -1.5, 1.5), {}),
    "lerp of weight 1 to -0, by scalar code": (
        "aten::lerp.Tensor_out", (torch.arange(-8.0, 8), torch.full((16,), -0.0), torch.ones(16)), {"out": gaps(16)},
    ),
    "aminmax of both zeros": ("aten::aminmax", (ZEROS,), {}),
    "aminmax of both zeros, written": (
        "aten::aminmax.out", (ZEROS.view(200, 200),), {"keepdim": True, "min": torch.empty(0), "max": torch.empty(0)},
    ),
    "the maximum of nothing, written": ("aten::max.unary_out", (torch.empty(0),), {"out": torch.empty(0)}),
    "softmax over an output's gaps": ("aten::_softmax.out", (torch.arange(12.0).view(3, 4), 1, False), {"out": gaps(3, 4)}),
    "the gradient of log softmax over an output's gaps": (
        "aten::_log_softmax_backward_data.out", (torch.ones(3, 4), -torch.ones(3, 4), 0, torch.float32), {"out": gaps(3, 4)},
    ),
    "powers of one base, into an empty output": ("aten::pow.Scalar_out", (0.5, torch.rand(4, 8).mT), {"out": torch.empty(0)}),
    "complex numbers beyond an integer's range": (
        "aten::copy_", (torch.zeros(3, dtype=torch.int64), torch.tensor([3e38 + 1j, -3e38, 2.5])), {},
    ),
    "logit of integers, written": ("aten::logit.out", (torch.arange(20) % 2, 1e-6), {"out": torch.empty(20)}),
    "complex conjugates": ("aten::_conj_physical", (torch.randn(5, dtype=torch.complex64),), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("threads", [1, 4])
def test_what_sweeps_found(name: str, threads: int) -> None:
    op, arguments, options = FOUND[name]
    compare(op, [Call(arguments, options, threads=threads)]).check()


def test_quick_sweeps_store_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ops = ["aten::tanh", "aten::gelu", "aten::add_.Tensor", "aten::mm", "aten::sum.dim_IntList", "aten::native_layer_norm"]
    assert main(["certify", "--quick", "--dtype", "float32", "--out", str(tmp_path / "made.json"), *ops]) == 0
    printed = capsys.readouterr().out
    assert "6 of 6 sweeps without a difference" in printed
    made = {certificate.op: certificate for certificate in certificates.load_all(tmp_path / "made.json")}
    assert sorted(made) == sorted(ops) and all(c.mode == "quick" and c.elements > 100 for c in made.values())
    assert "sgemm" in made["aten::mm"].provenance and made["aten::tanh"].provenance == []


def test_a_shard_of_an_exhaustive_sweep(tmp_path: Path) -> None:
    """Blocks of patterns in order, one by one and beside a large neighbour, of a function for which all three differ."""
    shard = ["--dtype", "float32", "--shard", "997/1000", "--out", str(tmp_path / "made.json")]
    assert main(["certify", "--exhaustive", *shard, "aten::gelu"]) == 0
    (made,) = certificates.load("aten::gelu", tmp_path / "made.json")
    assert made.shard == "997/1000" and made.elements > 1 << 24
    assert made.passes[:2] == ["in order approximate=none", "in order approximate=tanh"] and len(made.passes) == 6


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    op=st.sampled_from(ELEMENTWISE), shape=st.lists(st.integers(0, 9), min_size=0, max_size=4),
    layout=st.sampled_from(("contiguous", *inputs.LAYOUTS)), kind=st.sampled_from(("mixed", "wide", "bits")),
    seed=st.integers(0, 1 << 20), threads=st.sampled_from(inputs.THREADS),
)  # fmt: skip
def test_elementwise_on_made_up_shapes(
    op: str, shape: list[int], layout: str, kind: str, seed: int, threads: int
) -> None:
    operands = 2 if op.endswith(".Tensor") else 1
    tensors = [inputs.tensor(shape, torch.float32, seed + i, kind, layout) for i in range(operands)]
    compare(op, [Call(tuple(tensors), threads=threads)]).check()
