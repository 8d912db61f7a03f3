"""Arguments of any kind, valid or not: the device accepts what the CPU op accepts and raises what it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_map, tree_map_only

F = torch.nn.functional
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16)

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
dtypes = st.sampled_from(DTYPES[:1] * 4 + DTYPES)
dims = st.integers(-6, 6)
numbers = st.sampled_from([0, 1, -1, 2, 0.5, -0.25, float("inf"), float("nan"), 1 << 40])


@st.composite
def tensors(draw: Callable, shape: st.SearchStrategy = shapes, dtype: st.SearchStrategy = dtypes) -> torch.Tensor:
    """A small tensor, perhaps with its last two dimensions swapped in memory, or expanded."""
    x = (torch.arange(256) % 7 - 3).to(draw(dtype))
    size = draw(shape)
    made = x[: torch.Size(size).numel()].reshape(size)
    layout = draw(st.integers(0, 3))
    if layout == 1 and made.dim() > 1:
        made = made.transpose(-1, -2)
    elif layout == 2 and made.dim() > 0 and made.size(0) > 0:
        made = made[:1].expand(made.shape)
    return made


any_tensor = tensors()
two_dims = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
four_dims = st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(0, 3), st.integers(1, 3)) | shapes
indices = tensors(dtype=st.sampled_from([torch.int64, torch.int32, torch.float32]))
sizes = st.lists(st.integers(-1, 4), max_size=3)

OPS: dict[str, tuple[Callable, tuple[st.SearchStrategy, ...]]] = {
    "sum": (lambda x, d, k: torch.sum(x, d, k), (any_tensor, st.lists(dims, max_size=3) | dims, st.booleans())),
    "amax": (lambda x, d: torch.amax(x, d), (any_tensor, dims)),
    "std": (lambda x, d, c: torch.std(x, d, correction=c), (any_tensor, dims, st.integers(-1, 3))),
    "vector_norm": (lambda x, p, d: torch.linalg.vector_norm(x, p, d), (any_tensor, numbers, dims)),
    "softmax": (torch.softmax, (any_tensor, dims)),
    "log_softmax": (torch.log_softmax, (any_tensor, dims)),
    "layer_norm": (lambda x, n, w: F.layer_norm(x, n, w), (any_tensor, sizes, any_tensor | st.none())),
    "mm": (torch.mm, (tensors(two_dims), tensors(two_dims))),
    "addmm": (torch.addmm, (tensors(two_dims), tensors(two_dims), tensors(two_dims))),
    "bmm": (torch.bmm, (tensors(shapes), tensors(shapes))),
    "matmul": (torch.matmul, (any_tensor, any_tensor)),
    "linear": (F.linear, (any_tensor, any_tensor, any_tensor | st.none())),
    "dot": (torch.dot, (any_tensor, any_tensor)),
    "addr": (torch.addr, (any_tensor, any_tensor, any_tensor)),
    "attention": (
        lambda q, k, v, m, c: F.scaled_dot_product_attention(q, k, v, m, is_causal=c),
        (tensors(four_dims), tensors(four_dims), tensors(four_dims), any_tensor | st.none(), st.booleans()),
    ),
    "embedding": (lambda i, w, p: F.embedding(i, w, p), (indices, any_tensor, st.none() | dims)),
    "cross_entropy": (F.cross_entropy, (any_tensor, indices, any_tensor | st.none())),
    "nll_loss": (F.nll_loss, (any_tensor, indices)),
    "gelu": (lambda x, a: F.gelu(x, approximate=a), (any_tensor, st.sampled_from(["none", "tanh", "erf", ""]))),
    "glu": (F.glu, (any_tensor, dims)),
    "softplus": (F.softplus, (any_tensor, numbers, numbers)),
    "softshrink": (F.softshrink, (any_tensor, numbers)),
    "clamp": (torch.clamp, (any_tensor, st.none() | numbers | any_tensor, st.none() | numbers | any_tensor)),
    "add": (lambda x, y, a: torch.add(x, y, alpha=a), (any_tensor, any_tensor | numbers, numbers)),
    "pow": (torch.pow, (any_tensor, any_tensor | numbers)),
    "lerp": (torch.lerp, (any_tensor, any_tensor, any_tensor | numbers)),
    "addcdiv": (lambda x, y, z, v: torch.addcdiv(x, y, z, value=v), (any_tensor, any_tensor, any_tensor, numbers)),
    "maximum": (torch.maximum, (any_tensor, any_tensor)),
    "exp out": (lambda x, y: torch.exp(x, out=y.clone()), (any_tensor, any_tensor)),
    "add in place": (lambda x, y: x.clone().add_(y), (any_tensor, any_tensor)),
    "copy_": (lambda x, y: x.clone().copy_(y), (any_tensor, any_tensor)),
    "to": (lambda x, t: x.abs().to(t), (tensors(dtype=st.sampled_from([torch.float32, torch.int64])), dtypes)),
    "sort": (lambda x, d, r: torch.sort(x, d, r), (any_tensor, dims, st.booleans())),
    "topk": (lambda x, k, d: torch.topk(x, k, d), (any_tensor, st.integers(-2, 6), dims)),
    "cat": (lambda x, y, d: torch.cat([x, y], d), (any_tensor, any_tensor, dims)),
    "gather": (torch.gather, (any_tensor, dims, indices)),
    "index_select": (torch.index_select, (any_tensor, dims, indices)),
    "view": (lambda x, s: x.view(s), (any_tensor, sizes)),
    "transpose": (torch.transpose, (any_tensor, dims, dims)),
    "as_strided": (
        lambda x, s, t, o: torch.as_strided(x, s, t, o).sum(),
        (any_tensor, sizes, st.lists(st.integers(-1, 3), max_size=3), st.integers(-1, 5)),
    ),
    "uniform_": (lambda x, a, b: x.clone().uniform_(a, b).shape, (any_tensor, numbers, numbers)),
    "normal_": (lambda x, a, b: x.clone().normal_(a, b).shape, (any_tensor, numbers, numbers)),
    "bernoulli_": (lambda x, p: x.clone().bernoulli_(p).shape, (any_tensor, numbers | any_tensor)),
    "multinomial": (lambda x, n, r: torch.multinomial(x, n, r).shape, (any_tensor, st.integers(-1, 5), st.booleans())),
}  # fmt: skip


def outcome(function: Callable, arguments: tuple, device: str) -> Any:
    """Exception type, or dtype and shape of every result."""
    moved = tree_map_only(torch.Tensor, lambda t: _to(t, device), arguments)
    try:
        result = function(*moved)
    except Exception as error:
        return type(error)
    return tree_map(lambda t: (t.dtype, t.shape) if isinstance(t, torch.Tensor) else t, result)


def _to(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides."""
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).to(device, copy=True)
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _check(name: str, arguments: tuple) -> None:
    function = OPS[name][0]
    assert outcome(function, arguments, "densecore") == outcome(function, arguments, "cpu")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_the_device_takes_and_refuses_what_the_cpu_does(name: str) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.tuples(*OPS[name][1]))
    def check(arguments: tuple) -> None:
        _check(name, arguments)

    check()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_many_more_arguments(name: str) -> None:
    @settings(max_examples=1500, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.tuples(*OPS[name][1]))
    def check(arguments: tuple) -> None:
        _check(name, arguments)

    check()
