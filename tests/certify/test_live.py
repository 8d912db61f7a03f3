"""On the device: a sample of every certificate compared again, and shapes that hypothesis makes up."""

from __future__ import annotations

import importlib.util

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_densecore.certify import Call, certificates, compare, inputs, specs

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(importlib.util.find_spec("torch_densecore._C") is None, reason="the extension is not built"),
]
SAMPLE = 3  # cases of each certificate
ELEMENTWISE = ("aten::exp", "aten::tanh", "aten::add.Tensor", "aten::mul.Tensor", "aten::gelu")
_CERTIFICATES = list(certificates.load_all())


@pytest.mark.parametrize("certificate", _CERTIFICATES, ids=lambda c: f"{c.op}-{c.dtype}-{c.mode}")
def test_a_sample_of_each_certificate(certificate: certificates.Certificate) -> None:
    spec = specs.spec(certificate.op)
    cases = spec.cases(getattr(torch, certificate.dtype), quick=certificate.mode == "quick")
    chosen = range(inputs.seed_of(certificate.op) % len(cases), len(cases), max(1, len(cases) // SAMPLE))
    compare(certificate.op, [cases[i]() for i in list(chosen)[:SAMPLE]], profile=certificate.profile["name"]).check()


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
