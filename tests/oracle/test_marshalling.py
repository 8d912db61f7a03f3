"""Schemas and argument types."""

from __future__ import annotations

import numpy as np
import pytest

from torch_densecore.oracle import Oracle, schema
from torch_densecore.oracle.ivalue import MarshalError

torch = pytest.importorskip("torch")


def test_parser() -> None:
    parsed = schema.parse(
        'aten::f.out(Tensor(a!) self, Tensor?[] i, int[2]? s=[1, 2], *, str m="mean", ScalarType? d=None,'
        " float e=1e-05, Tensor(b!) out) -> (Tensor(a!), Tensor(b!))"
    )
    assert (parsed.namespace, parsed.name, parsed.overload) == ("aten", "f", "out")
    names = [a.name for a in parsed.arguments]
    assert names == ["self", "i", "s", "m", "d", "e", "out"]
    assert parsed.arguments[0].mutated and parsed.arguments[0].alias == "a"
    assert parsed.arguments[1].type.inner.optional and parsed.arguments[2].type.optional
    assert parsed.arguments[2].default == [1, 2] and parsed.arguments[3].default == "mean"
    assert parsed.arguments[5].default == 1e-5 and parsed.arguments[6].kwarg_only
    assert [r.alias for r in parsed.returns] == ["a", "b"]


def test_every_aten_schema_parses(oracle: Oracle) -> None:
    for name in oracle.operators():
        if name.startswith("aten::"):
            assert oracle.schema(name).name


def test_host_schemas_agree(oracle: Oracle) -> None:
    if not torch.__version__.startswith(oracle.wheel.version):
        pytest.skip("another torch version on the host")
    for name in ("aten::native_layer_norm", "aten::index_put_", "aten::convolution", "aten::var.correction"):
        base, _, overload = name.partition(".")
        theirs = torch._C._get_schema(base, overload)
        ours = oracle.schema(name)
        assert [a.name for a in theirs.arguments] == [a.name for a in ours.arguments]


@pytest.mark.parametrize(
    "dtype",
    [
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "bool",
        "complex64",
        "complex128",
        "uint16",
        "uint32",
        "uint64",
    ],
)
def test_dtypes_round_trip(oracle: Oracle, dtype: str) -> None:
    x = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    y = oracle.call("aten::clone", x)
    assert y.dtype == x.dtype and torch.equal(y, x)


def test_numpy_in_numpy_out(oracle: Oracle) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = oracle.call("aten::neg", x[:, ::-1])
    assert isinstance(y, np.ndarray) and np.array_equal(y, -x[:, ::-1])


def test_strides_and_offset(oracle: Oracle) -> None:
    x = torch.arange(60.0).reshape(3, 4, 5)
    for view in (x.transpose(0, 2), x[1:, ::2, 1:4], x[0].t(), x[:, 1].expand(2, 3, 5), x[2, 3, 4]):
        assert torch.equal(oracle.call("aten::add.Tensor", view, 1), view + 1)
    assert torch.equal(oracle.call("aten::as_strided", x[1], [2, 3], [1, 7], 2), x.as_strided([2, 3], [1, 7], 2))


def test_empty_and_zero_dimensional(oracle: Oracle) -> None:
    assert oracle.call("aten::cat", [torch.empty(0, 3), torch.ones(2, 3)]).shape == (2, 3)
    assert oracle.call("aten::sum", torch.empty(0)).item() == 0.0
    assert oracle.call("aten::neg", torch.tensor(2.0)).item() == -2.0


def test_optional_tensors(oracle: Oracle) -> None:
    x = torch.tensor([[1.0, 2.0, 4.0, 8.0]])
    plain = oracle.call("aten::native_layer_norm", x, [4], None, None, 1e-5)
    scaled = oracle.call("aten::native_layer_norm", x, [4], torch.full((4,), 2.0), torch.zeros(4), 1e-5)
    assert torch.equal(scaled[0], plain[0] * 2)


def test_optional_tensor_list(oracle: Oracle) -> None:
    x = torch.arange(12).reshape(3, 4)
    index = [None, torch.tensor([3, 0])]
    assert torch.equal(oracle.call("aten::index.Tensor", x, index), x[:, [3, 0]])
    y = x.clone()
    out = oracle.call("aten::index_put_", y, [torch.tensor([1])], torch.tensor(7), False)
    assert out is y and y[1].tolist() == [7] * 4


def test_integers_lists_and_defaults(oracle: Oracle) -> None:
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    assert torch.equal(oracle.call("aten::sum.dim_IntList", x, [1, 3], True), x.sum([1, 3], True))
    assert torch.equal(oracle.call("aten::sum.dim_IntList", x, None), x.sum())
    assert torch.equal(oracle.call("aten::max_pool2d", x, 2), torch.nn.functional.max_pool2d(x, 2))
    assert torch.equal(oracle.call("aten::roll", x, [1, -1], [2, 3]), x.roll([1, -1], [2, 3]))
    assert torch.equal(oracle.call("aten::slice.Tensor", x, 3, None, -1), x[..., :-1])
    assert torch.equal(oracle.call("aten::flip", x, [0, 3]), x.flip(0, 3))


def test_scalars(oracle: Oracle) -> None:
    x = torch.arange(4)
    assert torch.equal(oracle.call("aten::add.Tensor", x, x, alpha=3), x * 4)
    assert oracle.call("aten::mul.Scalar", x, 2.5).dtype == torch.float32
    assert oracle.call("aten::add.Scalar", x, True).tolist() == [1, 2, 3, 4]
    assert oracle.call("aten::mul.Scalar", torch.ones(1), 2j).tolist() == [2j]
    assert oracle.call("aten::clamp", x, None, 2).tolist() == [0, 1, 2, 2]


def test_wrapped_numbers(oracle: Oracle) -> None:
    half = torch.tensor(1.5, dtype=torch.float16)
    assert oracle.call("aten::add.Tensor", half, 2.5).dtype == torch.float16
    assert oracle.call("aten::add.Tensor", torch.tensor([1, 2], dtype=torch.int8), 3).dtype == torch.int8
    assert oracle.call("aten::add.Tensor", torch.tensor(1, dtype=torch.int8), 300.5).dtype == torch.float32


def test_type_arguments(oracle: Oracle) -> None:
    x = torch.arange(4.0)
    assert oracle.call("aten::sum", x, dtype=torch.float64).dtype == torch.float64
    assert (
        oracle.call("aten::zeros", [2], dtype=torch.int16, layout=torch.strided, device="cpu", pin_memory=False).dtype
        == torch.int16
    )
    y = oracle.call("aten::clone", torch.ones(1, 2, 3, 3), memory_format=torch.channels_last)
    assert y.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(MarshalError, match="device"):
        oracle.call("aten::zeros", [2], device="cuda")


def test_strings(oracle: Oracle) -> None:
    x = torch.tensor([-2.5, 2.5])
    assert oracle.call("aten::div.Tensor_mode", x, torch.tensor(2.0), rounding_mode="floor").tolist() == [-2.0, 1.0]
    tanh = oracle.call("aten::gelu", x, approximate="tanh")
    assert not torch.equal(tanh, oracle.call("aten::gelu", x))


def test_results(oracle: Oracle) -> None:
    x = torch.tensor([3.0, 1.0, 2.0])
    values, indices = oracle.call("aten::sort", x)
    assert values.tolist() == [1.0, 2.0, 3.0] and indices.tolist() == [1, 2, 0]
    parts = oracle.call("aten::split.Tensor", x, 2)
    assert [p.tolist() for p in parts] == [[3.0, 1.0], [2.0]]
    assert oracle.call("aten::equal", x, x) is True
    assert oracle.call("aten::_local_scalar_dense", torch.tensor(7)) == 7
    grads = oracle.call(
        "aten::native_layer_norm_backward", torch.ones(1, 3), torch.ones(1, 3), [3], torch.zeros(1, 1), torch.ones(1, 1),
        None, None, [True, False, False],
    )  # fmt: skip
    assert grads[0].shape == (1, 3) and grads[1] is None and grads[2] is None


def test_conjugate_views(oracle: Oracle) -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    assert torch.equal(oracle.call("aten::conj", x), x.conj().resolve_conj())
    assert torch.equal(oracle.call("aten::neg", x.conj()), -(x.conj()))


def test_in_place_and_out(oracle: Oracle) -> None:
    base = torch.zeros(6)
    view = base[1:4]
    assert oracle.call("aten::add_.Tensor", view, torch.arange(3.0)) is view
    assert base.tolist() == [0, 0, 1, 2, 0, 0]
    out = torch.empty(0)
    assert oracle.call("aten::mul.out", torch.ones(3), torch.full((3,), 2.0), out=out) is out
    assert out.tolist() == [2.0] * 3
    array = np.zeros(3, np.float32)
    oracle.call("aten::fill_.Scalar", array, 4)
    assert array.tolist() == [4.0] * 3
    grads = [torch.ones(2), torch.ones(3)]
    oracle.call("aten::_foreach_mul_.Scalar", grads, 3.0)
    assert grads[0].tolist() == [3.0] * 2 and grads[1].tolist() == [3.0] * 3


def test_in_place_views(oracle: Oracle) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert oracle.call("aten::transpose_", x, 0, 1) is x
    assert torch.equal(x, torch.arange(6.0).reshape(2, 3).t()) and x.stride() == (1, 3)
    assert oracle.call("aten::unsqueeze_", x, 0).shape == (1, 3, 2)


def test_shared_storage(oracle: Oracle) -> None:
    x = torch.arange(6.0)
    oracle.call("aten::add_.Tensor", x, x)
    assert x.tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(RuntimeError, match="overlap|single memory location"):
        oracle.call("aten::mul.out", x[:3], x[:3], out=x[1:4])


def test_binding_errors(oracle: Oracle) -> None:
    x = torch.ones(2)
    with pytest.raises(TypeError, match="missing"):
        oracle.call("aten::add.Tensor", x)
    with pytest.raises(TypeError, match="unexpected"):
        oracle.call("aten::relu", x, beta=1)
    with pytest.raises(KeyError):
        oracle.call("aten::no_such_operator", x)
    with pytest.raises(MarshalError):
        oracle.call("aten::sum.dim_IntList", x, "a")
