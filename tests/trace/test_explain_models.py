"""The models against the real thing: what this machine's torch and the device compute is found bit for bit, tails included."""

import math
import platform

import pytest
import torch
import torch.nn.functional as F
from traced_programs import run_traced

from torch_densecore.trace.digest import tensor_digest
from torch_densecore.trace.explain import estimates, functions
from torch_densecore.trace.explain.explanation import model_outputs
from torch_densecore.trace.explain.models import candidates
from torch_densecore.trace.replay import load_calls, run

x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkl.is_available(),
    reason="the models of the host are those of x86 with MKL and oneDNN",
)
device = pytest.mark.skipif(not hasattr(torch, "densecore"), reason="the compiled extension is not built")


def attention(queries: int, causal: bool):
    def body():
        q, k, v = (torch.randn(2, 2, queries, 24, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).backward(torch.randn(2, 2, queries, 24))

    return body


def layer_norm(width: int):
    def body():
        x, (weight, bias) = torch.randn(37, width, requires_grad=True), torch.randn(2, width, requires_grad=True)
        F.layer_norm(x, (width,), weight, bias).square().sum().backward()

    return body


def gelu(size: int, approximate: str):
    def body():
        x = (torch.randn(size) * 3).requires_grad_()
        F.gelu(x, approximate=approximate).backward(torch.randn(size))

    return body


def softmax(width: int):
    def body():
        x = torch.randn(19, width, requires_grad=True)
        (F.softmax(x, -1) * F.log_softmax(x, -1)).sum().backward()

    return body


# operators, and a program that calls them
CASES = {
    "attention": ("aten::_scaled_dot_product_flash*", attention(40, True)),
    "attention, keys in a tail": ("aten::_scaled_dot_product_flash*", attention(37, False)),
    "layer norm": ("aten::native_layer_norm*", layer_norm(96)),
    "layer norm, tail": ("aten::native_layer_norm*", layer_norm(77)),
    "gelu": ("aten::gelu*", gelu(4096, "none")),
    "gelu, tail": ("aten::gelu*", gelu(1003, "none")),
    "gelu tanh, tail": ("aten::gelu*", gelu(1003, "tanh")),
    "softmax": ("aten::_*softmax*", softmax(65)),
    "norms": ("aten::*norm*", lambda: torch._foreach_norm([torch.randn(1003), torch.randn(64, 40), torch.randn(7)])),
    "vector norm": ("aten::linalg_vector_norm*", lambda: torch.linalg.vector_norm(torch.randn(1003))),
    "square root": ("aten::sqrt", lambda: torch.randn(1003).abs().sqrt()),
    "product": ("aten::mm", lambda: torch.randn(30, 400) @ torch.randn(400, 20)),
    "products": ("aten::bmm", lambda: torch.randn(3, 40, 64) @ torch.randn(3, 64, 24)),
    "product with factors": ("aten::addmm", lambda: torch.addmm(*torch.randn(3, 40, 40), alpha=0.3, beta=0.7)),
}  # fmt: skip


def calls_of(tmp_path, name):
    operators, body = CASES[name]
    run_traced(tmp_path / "a.dct", body, keep=f"ops={operators}")
    return list(load_calls(tmp_path / "a.dct").values())


def exact_models(call, outputs: list[torch.Tensor]) -> list[str]:
    """The words of the models that have all of the outputs' bits."""
    digests = [tensor_digest(tensor) for tensor in outputs]
    found = []
    for model in candidates(call):
        computed = model_outputs(model, call)
        if model.part is None and computed and [tensor_digest(tensor) for tensor in computed] == digests:
            found.append(model.words())
    return found


@x86
@pytest.mark.parametrize("name", CASES)
def test_the_host_is_found(tmp_path, name):
    calls = calls_of(tmp_path, name)
    assert calls
    for call in calls:
        assert exact_models(call, call.outputs), f"no model of {call.site.op} has this host's bits"


@device
@pytest.mark.parametrize("name", CASES)
def test_the_device_is_found(tmp_path, name):
    calls = calls_of(tmp_path, name)
    assert calls
    for call in calls:
        outputs = [tensor.cpu() for tensor in run(call, "densecore")]
        assert exact_models(call, outputs), f"no model of {call.site.op} has the device's bits"


def test_a_wrong_bit_is_no_model(tmp_path):
    (call,) = calls_of(tmp_path, "vector norm")
    wrong = [torch.nextafter(call.outputs[0], torch.tensor(math.inf)) * 1.001]
    assert exact_models(call, wrong) == []


def test_one_special_argument_changes_its_group_of_four_lanes():
    """exp_u20 on NEON sends a group of 4 lanes to another function when one argument is large."""
    x = torch.linspace(-3, -0.01, 64).numpy()
    y = functions.exp_neon(x)
    x[9] = -90
    changed = functions.exp_neon(x) != y
    assert set(changed.nonzero()[0]) <= {8, 9, 10, 11} and changed[9]


@x86
def test_the_processor_estimates_an_inverse_square_root_to_12_bits():
    x = torch.linspace(0.01, 50, 1003).numpy()
    error = abs(estimates.rsqrt(x).astype("f8") * x.astype("f8") ** 0.5 - 1)
    assert 0 < error.max() <= 1.5 * 2.0**-12
