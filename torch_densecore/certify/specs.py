"""Which inputs each operator is swept with: operator -> dtypes and family."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from . import element_specs, products, window_specs
from .families import Case, Exhaustive, Family, Pointwise, Reduction, Rows, Sweep
from .inputs import FLOATS, INTEGERS

F32_F64 = (torch.float32, torch.float64)
NONE: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
_GELU = tuple(((), {"approximate": how}) for how in ("none", "tanh"))
_SOFTPLUS = (((1.0, 20.0), {}), ((2.0, 5.0), {}))
_RANGE = (((-1.0, 1.0), {}),)


@dataclass(frozen=True)
class Spec:
    """How one operator is swept. exhaustive: the family is elementwise with one operand, so all inputs can be tried."""

    op: str
    dtypes: Sequence[torch.dtype]
    family: Family
    form: str = ""
    exhaustive: bool = False

    def cases(self, dtype: torch.dtype, quick: bool = False, exhaustive: bool = False) -> list[Case]:
        """The numbered cases of one dtype; the numbering depends on nothing but the arguments."""
        sweep = Sweep(self.op, dtype, quick, self.form)
        if exhaustive:
            if not self.exhaustive:
                raise ValueError(f"{self.op} has no exhaustive sweep: it is not elementwise in one operand")
            return list(Exhaustive(self.family.rest[0][0])(sweep))
        return list(self.family(sweep))


SPECS: dict[str, Spec] = {}


def _add(op: str, family: Family, dtypes: Sequence[torch.dtype], forms: str = "", exhaustive: bool = False) -> None:
    """Declare an operator; forms: "_" adds the in-place variant, "o" the out variant."""
    base, _, overload = op.partition(".")
    SPECS[op] = Spec(op, dtypes, family, "", exhaustive)
    if "_" in forms:
        name = f"{base}_" + (f".{overload}" if overload else "")
        SPECS[name] = Spec(name, dtypes, family, "_", exhaustive)
    if "o" in forms:
        name = f"{base}.{'out' if overload in ('', 'Tensor', 'self', 'int', 'dim_IntList', 'dim') else overload + '_out'}"
        SPECS[name] = Spec(name, dtypes, family, "out", exhaustive)


def _unary() -> None:
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid",
        "erf", "erfc", "erfinv", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "digamma",
        "reciprocal", "neg", "abs", "sign", "floor", "ceil", "trunc", "round", "frac",
    ):  # fmt: skip
        _add(f"aten::{name}", Pointwise(), FLOATS, "_o", exhaustive=True)
    for name in ("relu", "silu", "mish", "hardswish", "hardsigmoid", "sinc"):
        _add(f"aten::{name}", Pointwise(), FLOATS, "_o", exhaustive=True)
    for name in ("log_sigmoid", "log_sigmoid_forward"):
        _add(f"aten::{name}", Pointwise(), FLOATS)
    _add("aten::gelu", Pointwise(rest=_GELU), FLOATS, "_o")
    _add("aten::logit", Pointwise(rest=(((None,), {}), ((1e-6,), {})), domain="unit"), FLOATS, "_o")
    for name in ("isnan", "isinf", "isfinite", "logical_not", "signbit"):
        _add(f"aten::{name}", Pointwise(), (*FLOATS, torch.int64), exhaustive=True)
    for name in ("softshrink", "hardshrink"):
        _add(f"aten::{name}", Pointwise(rest=(((0.5,), {}),)), FLOATS, "o")
    _add("aten::softplus", Pointwise(rest=_SOFTPLUS), FLOATS, "o")
    _add("aten::elu", Pointwise(rest=(((1.0, 1.0, 1.0), {}),)), FLOATS, "_o")
    _add("aten::leaky_relu", Pointwise(rest=(((0.01,), {}),)), FLOATS, "_o")
    _add("aten::hardtanh", Pointwise(rest=_RANGE), FLOATS, "_o")
    _add("aten::clamp", Pointwise(rest=(*_RANGE, ((None, 1.0), {}), ((0.5, None), {}))), FLOATS, "_o")
    for name in ("clamp_min", "clamp_max"):
        _add(f"aten::{name}", Pointwise(rest=(((0.3,), {}),)), FLOATS, "_o")


def _binary() -> None:
    alphas = (NONE, ((), {"alpha": 3}), ((), {"alpha": -1}))
    for name in ("add", "sub"):
        family = Pointwise(2, alphas, float_rest=(((), {"alpha": 2.5}),))
        _add(f"aten::{name}.Tensor", family, (*FLOATS, *INTEGERS), "_o")
    _add("aten::mul.Tensor", Pointwise(2), (*FLOATS, *INTEGERS), "_o")
    _add("aten::div.Tensor", Pointwise(2), (*FLOATS, *INTEGERS), "_o")
    for name in ("maximum", "minimum", "fmax", "fmin"):
        _add(f"aten::{name}", Pointwise(2), FLOATS, "o")
    for name in ("atan2", "pow.Tensor_Tensor", "hypot", "copysign.Tensor", "rsub.Tensor", "nextafter"):
        _add(f"aten::{name}", Pointwise(2), FLOATS)
    modes = tuple(((), {"rounding_mode": mode}) for mode in ("floor", "trunc"))
    _add("aten::div.Tensor_mode", Pointwise(2, modes), FLOATS)
    for name, count in (("clamp.Tensor", 3), ("clamp_min.Tensor", 2), ("clamp_max.Tensor", 2)):
        _add(f"aten::{name}", Pointwise(count), FLOATS, "_")
    scalars = tuple(((s,), {}) for s in (0.5, 2.0, 3.0, -1.7))
    for name in ("add", "sub", "mul", "div", "eq", "lt", "gt", "ge", "le", "ne"):
        _add(f"aten::{name}.Scalar", Pointwise(1, scalars), FLOATS)
    exponents = tuple(((s,), {}) for s in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 0.0, 1.0, 1.7))
    _add("aten::pow.Tensor_Scalar", Pointwise(1, exponents), FLOATS)
    for name in ("eq", "lt", "gt", "ge", "le", "ne"):
        _add(f"aten::{name}.Tensor", Pointwise(2), (*FLOATS, torch.int64))
    for name in ("addcmul", "addcdiv"):
        _add(f"aten::{name}", Pointwise(3, (NONE, ((), {"value": 0.1}), ((), {"value": -0.001}))), FLOATS, "_o")
    weights = tuple(((w,), {}) for w in (0.1, 0.5, 0.9, 0.001))
    _add("aten::lerp.Scalar", Pointwise(2, weights), FLOATS, "_o")
    _add("aten::lerp.Tensor", Pointwise(3), FLOATS, "_")
    for name, rest in (
        ("gelu", _GELU), ("sigmoid", (NONE,)), ("tanh", (NONE,)), ("silu", (NONE,)), ("mish", (NONE,)), ("hardswish", (NONE,)),
        ("softplus", _SOFTPLUS), ("hardtanh", _RANGE), ("softshrink", (((0.5,), {}),)), ("hardshrink", (((0.5,), {}),)),
    ):  # fmt: skip
        _add(f"aten::{name}_backward", Pointwise(2, rest, broadcast=False), FLOATS)
    elu = lambda make, s: ((make(s), 1.0, 1.0, 1.0, False, make(s)), {})  # noqa: E731
    _add("aten::elu_backward", Rows(elu, ROW_SHAPES), FLOATS)
    _add("aten::threshold_backward", Pointwise(2, (((0.0,), {}),), broadcast=False), FLOATS)


def _reductions() -> None:
    _add("aten::sum", Reduction("none"), (*FLOATS, torch.int64))
    for name in ("mean", "prod", "nansum"):
        dims = "list" if name == "nansum" else "none"
        _add(f"aten::{name}", Reduction(dims), FLOATS)
    _add("aten::sum.dim_IntList", Reduction("list"), (*FLOATS, torch.int64))
    _add("aten::mean.dim", Reduction("list"), FLOATS)
    _add("aten::prod.dim_int", Reduction("int"), FLOATS)
    _add("aten::var.correction", Reduction("list", (((), {"correction": 1}), ((), {"correction": 0})), keepdim=False), FLOATS)
    _add("aten::std.correction", Reduction("list", keepdim=False), FLOATS)
    for name in ("var_mean", "std_mean"):
        _add(f"aten::{name}.correction", Reduction("list", keepdim=False), FLOATS)
    _add("aten::logsumexp", Reduction("list"), FLOATS)
    for name in ("amax", "amin"):
        _add(f"aten::{name}", Reduction("list"), (*FLOATS, torch.int64))
    for name in ("max.dim", "min.dim"):
        _add(f"aten::{name}", Reduction("int"), (*FLOATS, torch.int64))
    for name in ("max", "min"):
        _add(f"aten::{name}", Reduction("none"), (*FLOATS, torch.int64))
    for name in ("argmax", "argmin"):
        _add(f"aten::{name}", Reduction("int"), FLOATS)
    for name in ("cumsum", "cumprod"):
        _add(f"aten::{name}", Reduction("int", keepdim=False), FLOATS)
    for name in ("_softmax", "_log_softmax"):
        _add(f"aten::{name}", Reduction("int", (((False,), {}),), keepdim=False), FLOATS)
    _add("aten::_safe_softmax", Reduction("int", keepdim=False), FLOATS)
    norm = lambda p: Rows(lambda make, s: ((make(s), p, [len(s) - 1]), {}), ROW_SHAPES)  # noqa: E731
    _add("aten::linalg_vector_norm", norm(2.0), FLOATS)
    _add("aten::_foreach_norm.Scalar", Rows(lambda make, s: (([make(s), make((3,)), make((65, 32))], 2.0), {}), ROW_SHAPES), FLOATS)


ROW_SHAPES = (
    (1, 1), (1, 3), (2, 4), (3, 5), (4, 8), (5, 16), (2, 17), (3, 31), (4, 32), (5, 33), (2, 63), (7, 64), (3, 65), (2, 127),
    (2, 128), (2, 129), (1, 255), (9, 256), (2, 384), (2, 768), (3, 1023), (2, 1025), (65, 513), (513, 65),
)  # fmt: skip


def _softmax_backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    grad = make(shape)
    return (grad, make(shape, "unit"), len(shape) - 1, grad.dtype), {}


def _log_softmax_backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    grad = make(shape)
    return (grad, -make(shape, "positive"), len(shape) - 1, grad.dtype), {}


def _layer_norm(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    return (make(shape), [shape[-1]], make(shape[-1:]), make(shape[-1:]), 1e-5), {}


def _layer_norm_plain(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    return (make(shape), [shape[-1]], make(shape[-1:]), None, 1e-5), {}


def _layer_norm_backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    grad, x = make(shape), make(shape)
    kind = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    mean, scale = make((*shape[:-1], 1), dtype=kind), make((*shape[:-1], 1), "positive", dtype=kind)
    return (grad, x, [shape[-1]], mean, scale, make(shape[-1:]), make(shape[-1:]), [True, True, True]), {}


def _normalization() -> None:
    _add("aten::native_layer_norm", Rows(_layer_norm, ROW_SHAPES), FLOATS)
    _add("aten::native_layer_norm_backward", Rows(_layer_norm_backward, ROW_SHAPES), FLOATS)
    _add("aten::_softmax_backward_data", Rows(_softmax_backward, ROW_SHAPES), FLOATS)
    _add("aten::_log_softmax_backward_data", Rows(_log_softmax_backward, ROW_SHAPES), FLOATS)


def _blas() -> None:
    kinds = (torch.float32, torch.int64, torch.int32, torch.uint8)
    for name in ("mm", "bmm", "mv", "dot", "vdot"):
        family = products.Products(getattr(products, name.removeprefix("v") if name == "vdot" else name))
        _add(f"aten::{name}", family, kinds, "o" if name.endswith("mm") else "")
    for name in ("addmm", "baddbmm", "addbmm", "addmv", "addr"):
        _add(f"aten::{name}", products.Products(getattr(products, name)), kinds, "_o")
    _add("aten::linear", products.Products(products.linear), (torch.float32,))


def _attention(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    batch, heads, key_heads, length, width, causal = shape
    q, k, v = (make((batch, length, h, width)).transpose(1, 2) for h in (heads, key_heads, key_heads))
    return (q, k, v, 0.0, bool(causal)), {}


# batch, heads of queries, heads of keys, length, head size, causal
ATTENTION = (
    (1, 1, 1, 1, 16, 1), (1, 2, 2, 2, 16, 1), (2, 2, 2, 5, 8, 1), (1, 1, 1, 5, 64, 1), (2, 3, 3, 17, 16, 0), (1, 2, 2, 33, 32, 1),
    (4, 2, 2, 64, 16, 1), (1, 1, 1, 72, 64, 1), (1, 2, 2, 65, 20, 0), (1, 1, 1, 257, 16, 1), (1, 1, 1, 513, 32, 1),
    (1, 1, 1, 769, 16, 1), (1, 4, 2, 5, 8, 1), (2, 6, 2, 40, 16, 0), (1, 4, 1, 200, 16, 1),
)  # fmt: skip


def _losses() -> None:
    def targets(make: Any, shape: tuple[int, ...]) -> torch.Tensor:
        return (make((shape[0],), "bits", torch.int64) % shape[1]).abs()

    def forward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        scores = make(shape)
        return (scores, targets(make, shape), None, 1, 0), {}

    def backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        scores, target = make(shape), targets(make, shape)
        return (make(()), scores, target, None, 1, 0, torch.tensor(float(shape[0]), dtype=scores.dtype)), {}

    shapes = tuple(s for s in ROW_SHAPES if s[1] > 1)
    _add("aten::nll_loss_forward", Rows(forward, shapes), FLOATS)
    _add("aten::nll_loss_backward", Rows(backward, shapes, layouts=("contiguous",)), FLOATS)
    for name in ("mse_loss", "smooth_l1_loss", "binary_cross_entropy", "huber_loss"):
        kind = "unit" if name == "binary_cross_entropy" else "normal"
        build = lambda make, s, k=kind: ((make(s, k), make(s, k)), {})  # noqa: E731
        _add(f"aten::{name}", Rows(build, ROW_SHAPES), FLOATS)


def _indexing() -> None:
    def rows(make: Any, shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        table = make(shape)
        return table, make((11,), "bits", torch.int64).remainder(shape[0])

    def embedding_backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
        grad = make((40, shape[1]))
        return (grad, make((40,), "bits", torch.int64).remainder(shape[0]), shape[0], -1, False), {}

    _add("aten::embedding", Rows(lambda make, s: (rows(make, s), {}), ROW_SHAPES), FLOATS)
    _add("aten::embedding_dense_backward", Rows(embedding_backward, ROW_SHAPES), FLOATS)
    _add("aten::cat", Rows(lambda make, s: (([make(s), make(s), make(s)], 1), {}), ROW_SHAPES), (*FLOATS, torch.int64))
    _add("aten::stack", Rows(lambda make, s: (([make(s), make(s)], 0), {}), ROW_SHAPES), FLOATS)
    _add("aten::topk", Rows(lambda make, s: ((make(s), min(s[-1], 5)), {}), ROW_SHAPES), (*FLOATS, torch.int64))
    _add("aten::sort", Rows(lambda make, s: ((make(s), 1), {}), ROW_SHAPES), (*FLOATS, torch.int64))
    _add("aten::tril", Rows(lambda make, s: ((make(s),), {}), ROW_SHAPES), (*FLOATS, torch.int64))
    masked = lambda make, s: ((make(s), make(s, dtype=torch.bool), float("-inf")), {})  # noqa: E731
    _add("aten::masked_fill.Scalar", Rows(masked, ROW_SHAPES), FLOATS)
    where = lambda make, s: ((make(s, dtype=torch.bool), make(s), make(s)), {})  # noqa: E731
    _add("aten::where.self", Rows(where, ROW_SHAPES), FLOATS)
    _add("aten::clone", Pointwise(), (*FLOATS, *INTEGERS, torch.bool))


RANDOM = tuple((n,) for n in (0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 100, 1000, 4097, 32769, 100003))


def _random() -> None:
    def filled(*rest: Any) -> Callable[..., Any]:
        return lambda make, s: ((make(s), *rest), {})

    contiguous = ("contiguous", "strided")
    for op, rest in (
        ("aten::normal_", (0.5, 2.0)), ("aten::uniform_", (-1.0, 3.0)), ("aten::bernoulli_.float", (0.3,)),
        ("aten::exponential_", (1.5,)), ("aten::random_", ()), ("aten::log_normal_", (0.0, 0.5)), ("aten::geometric_", (0.3,)),
        ("aten::cauchy_", (0.0, 1.0)),
    ):  # fmt: skip
        _add(op, Rows(filled(*rest), RANDOM, layouts=contiguous), FLOATS)
    _add("aten::native_dropout", Rows(filled(0.2, True), RANDOM, layouts=contiguous), FLOATS)
    _add("aten::multinomial", Rows(lambda make, s: ((make(s, "unit") + 1e-3, 1), {}), ROW_SHAPES), F32_F64)
    _add("aten::randperm", Rows(lambda make, s: ((s[0],), {}), RANDOM, layouts=("contiguous",)), (torch.int64,))


def _attention_backward(make: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The forward's results come from this host: they are inputs here, whatever their last bit."""
    (q, k, v, dropout, causal), _ = _attention(make, shape)
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal)
    grad = make(tuple(out.transpose(1, 2).shape)).transpose(1, 2)
    return (grad, q, k, v, out, logsumexp, dropout, causal), {}


def _attention_specs() -> None:
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    _add(name, Rows(_attention, ATTENTION, layouts=("contiguous",)), FLOATS)
    _add(f"{name}_backward", Rows(_attention_backward, ATTENTION, layouts=("contiguous",)), FLOATS)


for _declare in (_unary, _binary, _reductions, _normalization, _blas, _attention_specs, _losses, _indexing, _random):
    _declare()
element_specs.declare(_add)
window_specs.declare(_add)


def spec(op: str) -> Spec:
    """The spec of `aten::name.overload`; a plain `name` works too."""
    qualified = op if "::" in op else f"aten::{op}"
    if qualified not in SPECS:
        near = sorted(name for name in SPECS if name.partition("::")[2].partition(".")[0] == op.partition("::")[2] or op in name)
        hint = f"; did you mean {', '.join(near[:5])}?" if near else ""
        raise KeyError(f"no inputs are declared for {op}{hint}")
    return SPECS[qualified]


def cases(op: str, dtypes: Iterable[torch.dtype] | None = None, quick: bool = False) -> Iterable[Case]:
    """All cases of an operator for the given dtypes (default: all it is swept with)."""
    found = spec(op)
    return chain.from_iterable(found.cases(dtype, quick) for dtype in dtypes or found.dtypes)
