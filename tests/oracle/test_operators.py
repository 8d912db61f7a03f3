"""Operators: bit equality with the host where IEEE 754 leaves no choice, high precision elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torch_densecore.oracle import Oracle

torch = pytest.importorskip("torch")
from torch_densecore.certify.bits import same as same_bits  # noqa: E402

_G = torch.Generator().manual_seed(0)


def _f(*shape: int) -> Any:
    return torch.randn(shape, generator=_G)


def _i(*shape: int, low: int = -50, high: int = 50) -> Any:
    return torch.randint(low, high, shape, generator=_G)


X, Y, P = _f(5, 37), _f(5, 37), _f(5, 37).abs() + 0.5
K, J, B = _i(6, 9), _i(6, 9, low=1), _i(6, 9) > 0
D, H = X.double(), X.half()
EXACT: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("add.Tensor", (X, Y), {}), ("sub.Tensor", (X, Y), {}), ("mul.Tensor", (X, Y), {}), ("div.Tensor", (X, Y), {}),
    ("add.Tensor", (D, 3.5), {}), ("mul.Tensor", (H, H), {}), ("add.Tensor", (X.bfloat16(), X.bfloat16()), {}),
    ("neg", (X,), {}), ("abs", (X,), {}), ("rsqrt", (P,), {}), ("reciprocal", (P,), {}),
    ("floor", (X,), {}), ("ceil", (X,), {}), ("round", (X * 4,), {}), ("trunc", (X * 4,), {}), ("frac", (X,), {}),
    ("sign", (X,), {}), ("relu", (X,), {}), ("hardtanh", (X,), {}), ("clamp", (X, -0.5, 0.5), {}), ("leaky_relu", (X,), {}),
    ("maximum", (X, Y), {}), ("minimum", (X, Y), {}), ("fmod.Tensor", (X, P), {}), ("remainder.Tensor", (X, P), {}),
    ("copysign.Tensor", (X, Y), {}), ("nextafter", (X, Y), {}), ("addcmul", (X[:1], X[:1] * 0 + 1, Y[:1]), {}),
    ("lt.Tensor", (X, Y), {}), ("eq.Tensor", (K, J), {}), ("logical_not", (B,), {}), ("where.self", (B, K, J), {}),
    ("isnan", (X,), {}), ("masked_fill.Scalar", (K, B, 3), {}), ("bitwise_and.Tensor", (K, J), {}),
    ("bitwise_left_shift.Tensor_Scalar", (K, 3), {}), ("floor_divide", (K, J), {}), ("sum", (K,), {}),
    ("cumsum", (K, 1), {}), ("prod.dim_int", (K[:, :4], 1), {}), ("cumprod", (K[:, :4], 1), {}), ("argmax", (X, 1), {}),
    ("amax", (X, [1]), {}), ("min.dim", (X, 1), {}), ("topk", (X, 5), {}), ("sort", (X, 1), {}), ("kthvalue", (X, 3), {}),
    ("cat", ([X, Y], 1), {}), ("stack", ([X, Y], 1), {}), ("gather", (K, 1, K.abs() % 9), {}),
    ("index_select", (X, 0, torch.tensor([4, 0, 4])), {}), ("scatter.src", (K, 1, K.abs() % 9, J), {}),
    ("scatter_add", (K, 1, K.abs() % 9, J), {}), ("index_add", (K, 0, torch.tensor([1, 1]), J[:2]), {}),
    ("embedding", (X, torch.tensor([[0, 4], [2, 2]])), {}), ("tril", (X,), {}), ("triu", (X, 1), {}),
    ("roll", (X, [3], [1]), {}),
    ("flip", (X, [1]), {}), ("constant_pad_nd", (X, [1, 2], 0.5), {}), ("repeat", (X, [2, 1]), {}), ("nonzero", (B,), {}),
    ("masked_select", (X, X > 0), {}), ("_to_copy", (X,), {"dtype": torch.bfloat16}),
    ("_to_copy", (X * 100,), {"dtype": torch.int8}),
    ("_to_copy", (X,), {"dtype": torch.float16}), ("arange", (17,), {}), ("linspace", (0, 1, 9), {}), ("eye", (5,), {}),
    ("bincount", (K.reshape(-1).abs(),), {}), ("searchsorted.Tensor", (torch.arange(9.0), X), {}), ("histc", (X, 8, -2, 2), {}),
    ("histc", (X, 7), {}), ("histc", (torch.ones(4), 5), {}),
    ("max_pool2d_with_indices", (_f(1, 2, 8, 8), [2, 2]), {}), ("pixel_shuffle", (_f(1, 4, 3, 3), 2), {}),
    ("one_hot", (torch.tensor([0, 3, 1]), 5), {}), ("complex", (X, Y), {}), ("view_as_real_copy", (torch.complex(X, Y),), {}),
    ("mm", (K.float(), J.t().float()), {}), ("addmm", (K[:1, :1].float(), K.float(), J.t().float()), {}),
    ("bmm", (K[None].float(), J.t()[None].float()), {}), ("mv", (K.float(), J[0].float()), {}),
    ("dot", (J[0].float(), J[1].float()), {}),
    ("mm", (K, J.t()), {}), ("mean.dim", (K.float(), [1]), {}), ("unique_dim", (K, 0), {}), ("diff", (K,), {}),
]  # fmt: skip


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case[0])
def test_equal_to_host(oracle: Oracle, case: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    name, args, kwargs = case
    base, _, overload = name.partition(".")
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")(*args, **kwargs)
    ours = oracle.call(f"aten::{name}", *args, **kwargs)
    left = ours if isinstance(ours, (tuple, list)) else [ours]
    right = theirs if isinstance(theirs, (tuple, list)) else [theirs]
    assert len(left) == len(right) and all(map(same_bits, left, right))


# largest error in units in the last place against float64; Sleef and polynomial kernels promise about 1
TRANSCENDENTAL: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray], float]] = {
    "exp": (X, np.exp, 1.0), "expm1": (X, np.expm1, 1.0), "log": (P, np.log, 1.0), "log2": (P, np.log2, 1.0),
    "log10": (P, np.log10, 1.0), "log1p": (P, np.log1p, 1.0), "sin": (X, np.sin, 1.0), "cos": (X, np.cos, 1.0),
    "tan": (X, np.tan, 1.0), "asin": (X / 8, np.arcsin, 1.0), "acos": (X / 8, np.arccos, 1.0), "atan": (X, np.arctan, 1.0),
    "sinh": (X, np.sinh, 1.0), "cosh": (X, np.cosh, 1.0), "tanh": (X, np.tanh, 1.0), "exp2": (X, np.exp2, 1.0),
    "sigmoid": (X, lambda v: 1 / (1 + np.exp(-v)), 3.0), "silu": (X, lambda v: v / (1 + np.exp(-v)), 4.0),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental(oracle: Oracle, name: str) -> None:
    x, function, bound = TRANSCENDENTAL[name]
    exact = function(x.double().numpy())
    got = oracle.call(f"aten::{name}", x).double().numpy()
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(got - exact) / unit).max() <= bound


def test_square_root_is_exact(oracle: Oracle) -> None:
    """Compared with NumPy: torch on x86 may use a vector library that is an ulp off."""
    assert np.array_equal(oracle.call("aten::sqrt", P).numpy(), np.sqrt(P.numpy()))


def test_reductions_and_normalisation(oracle: Oracle) -> None:
    exact = D.softmax(1)
    assert torch.allclose(oracle.call("aten::_softmax", X, 1, False).double(), exact, rtol=1e-6, atol=1e-7)
    out, mean, rstd = oracle.call("aten::native_layer_norm", X, [37], None, None, 1e-5)
    assert torch.allclose(mean.double(), D.mean(1, keepdim=True), atol=1e-7)
    assert torch.allclose(out.double(), torch.nn.functional.layer_norm(D, [37]), atol=1e-6)
    assert torch.allclose(oracle.call("aten::var.correction", X, [1]).double(), D.var(1), rtol=1e-6)
    assert torch.allclose(oracle.call("aten::logsumexp", X, [1]).double(), D.logsumexp(1), rtol=1e-6)


def test_fused_multiply_add_in_matmul(oracle: Oracle) -> None:
    """The BLAS model of large products is one FMA chain per output."""
    a, b = _f(16, 17), _f(17, 16)
    got = oracle.call("aten::mm", a, b)
    for i in range(0, 16, 5):
        for j in range(0, 16, 5):
            total = np.float32(0)
            for k in range(17):  # a float32 product is exact in float64; double rounding is negligible here
                total = np.float32(np.longdouble(a[i, k].item()) * np.longdouble(b[k, j].item()) + np.longdouble(total))
            assert got[i, j].item() == total
    (request,) = oracle.last.blas
    assert request.routine == "sgemm" and request.arguments["k"] == 17
    assert oracle.last.provenance == {"sgemm"}


def test_convolution_and_attention(oracle: Oracle) -> None:
    x, w, b = _f(2, 3, 9, 9), _f(4, 3, 3, 3), _f(4)
    got = oracle.call("aten::convolution", x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    want = torch.nn.functional.conv2d(x.double(), w.double(), b.double(), padding=1)
    assert torch.allclose(got.double(), want, atol=1e-5)
    q = _f(1, 2, 6, 8)
    got = oracle.call("aten::scaled_dot_product_attention", q, q, q)
    assert torch.allclose(got.double(), torch.nn.functional.scaled_dot_product_attention(*[q.double()] * 3), atol=1e-5)


def test_half_precision_matmul_is_pure(oracle: Oracle) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        result = oracle.run("aten::mm", X.to(dtype), Y.t().to(dtype))
        assert result.pure and torch.allclose(result.value.double(), D @ Y.double().t(), atol=0.2)


def test_an_output_keeps_the_strides_that_the_operator_gives_it(oracle: Oracle) -> None:
    x = _f(1, 2, 3)
    out = torch.ones(1, 2, 5, 2)[..., 0]
    result = oracle.run("aten::replication_pad2d.out", x, [1, 1, 0, 0], out=out).value
    assert result is out and out.stride() == (10, 5, 1)
    assert same_bits(out, torch.ops.aten.replication_pad2d(x, [1, 1, 0, 0]))
