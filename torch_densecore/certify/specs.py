"""Which inputs each operator is swept with: operator -> dtypes and family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from .. import registry
from . import element_specs, families, forms, model_specs, movement_specs, products, random_specs, window_specs
from .families import ROW_SHAPES, Brief, Case, Exhaustive, Family, Pointwise, Reduction, Rows, Several, Sweep
from .inputs import EVERY, FLOATS, NUMBERS

COMPOSITE = (torch.float32, torch.int64)  # of operators that torch makes of others before the device sees them
SINGLE = (torch.float32,)
NONE: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
_GELU = tuple(((), {"approximate": how}) for how in ("none", "tanh"))
_SOFTPLUS = (((1.0, 20.0), {}), ((2.0, 5.0), {}))


@dataclass(frozen=True)
class Spec:
    """How one operator is swept. exhaustive: how all inputs can be tried, for an elementwise operator of one operand."""

    op: str
    dtypes: Sequence[torch.dtype]
    family: Family
    exhaustive: Exhaustive | None = None

    def cases(self, dtype: torch.dtype, quick: bool = False, exhaustive: bool = False) -> list[Case]:
        """The numbered cases of one dtype; the numbering depends on nothing but the arguments."""
        sweep = Sweep(self.op, dtype, quick)
        if exhaustive:
            if self.exhaustive is None:
                raise ValueError(f"{self.op} has no exhaustive sweep: it is not elementwise in one operand")
            return list(self.exhaustive(sweep))
        return list(self.family(sweep))

    def claimed(self) -> list[torch.dtype]:
        """The dtypes that the device claims for the operator (registry); float32 and int64 for one that torch makes of others."""
        declared = registry.load().get(self.op)
        if declared is None:
            return [d for d in self.dtypes if d in COMPOSITE and _is_composite(self.op)]
        return [d for d in self.dtypes if d in declared.kernel or d in declared.exact]


def _is_composite(op: str) -> bool:
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op, key) for key in keys)


SPECS: dict[str, Spec] = {}
_NO_VALUES = "gives memory whose elements have no defined values, so there are none to compare"
_STORAGE = "takes a storage, which the comparison cannot pass to the reference; checkpoints test it (tests/test_training.py)"
NOT_SWEPT = {
    "aten::empty.memory_format": _NO_VALUES,
    "aten::empty_strided": _NO_VALUES,
    "aten::resize_": _NO_VALUES,
    "aten::set_": "leaves a tensor without elements",
    "aten::set_.source_Storage": _STORAGE,
    "aten::set_.source_Storage_storage_offset": _STORAGE,
}


def _add(op: str, family: Family, dtypes: Sequence[torch.dtype] = EVERY, exhaustive: Exhaustive | None = None) -> None:
    """Declare the functional form of an operator; `_forms` finds the others."""
    SPECS[op] = Spec(op, dtypes, family, exhaustive)


# What the reference does with an element: vector code only; vector code whose bits depend on its group of 4 lanes; or vector
# code for whole vectors and scalar code in tails and for strided operands.
IN_ORDER, BESIDE, STRIDED = families.IN_ORDER, families.BESIDE, families.STRIDED
VECTOR, GROUPS, TAILS = (IN_ORDER,), (IN_ORDER, BESIDE), (IN_ORDER, STRIDED)
_UNARY = {
    VECTOR: (
        "exp expm1 log log2 log10 log1p sqrt tanh asin acos atan erfc neg abs sign sgn floor ceil trunc round frac "
        "asinh acosh sinc erfinv lgamma digamma"
    ),
    GROUPS: "sin cos tan erf",
    TAILS: "rsqrt reciprocal exp2 sigmoid sinh cosh atanh relu silu mish hardswish hardsigmoid",
}


def _unary() -> None:
    for passes, names in _UNARY.items():
        for name in names.split():
            _add(f"aten::{name}", Pointwise(), exhaustive=Exhaustive(passes))
    for name in ("log_sigmoid", "log_sigmoid_forward"):
        _add(f"aten::{name}", Pointwise(), SINGLE, Exhaustive(VECTOR))
    _add("aten::gelu", Pointwise(rest=_GELU), FLOATS, Exhaustive((IN_ORDER, BESIDE, STRIDED), _GELU))
    logit = (((None,), {}), ((1e-6,), {}))
    _add("aten::logit", Pointwise(rest=logit, domain="unit"), exhaustive=Exhaustive(TAILS, logit))
    for name in ("isnan", "isposinf", "isneginf", "signbit"):
        _add(f"aten::{name}", Pointwise(), exhaustive=Exhaustive(VECTOR))
    for name in ("isinf", "isfinite", "logical_not", "clone"):
        _add(f"aten::{name}", Pointwise())
    for name, *rest in (
        ("softshrink", (0.5,)), ("hardshrink", (0.5,)), ("softplus", (1.0, 20.0), (2.0, 5.0)), ("elu", (1.0, 1.0, 1.0)),
        ("leaky_relu", (0.01,)), ("hardtanh", (-1.0, 1.0), (0, 6)),
        ("clamp", (-1.0, 1.0), (None, 1.0), (0.5, None), (-1, 3)), ("clamp_min", (0.3,), (2,)), ("clamp_max", (0.3,), (2,)),
        ("threshold", (0.0, 1.0)),
    ):  # fmt: skip
        alternatives = [(words, {}) for words in rest]
        _add(f"aten::{name}", Pointwise(rest=alternatives), exhaustive=Exhaustive(TAILS, alternatives[:1]))
    halves = [Rows(lambda make, s, d=dim: ((make((*s[:d], 2 * s[d], *s[d + 1 :]), "mixed"), d), {}), ROW_SHAPES) for dim in (0, 1)]
    _add("aten::glu", Several(halves), FLOATS)


def _binary() -> None:
    alphas = (NONE, ((), {"alpha": 3}), ((), {"alpha": -1}))
    for name in ("add.Tensor", "sub.Tensor", "rsub.Tensor"):
        _add(f"aten::{name}", Pointwise(2, alphas, float_rest=(((), {"alpha": 2.5}),)), NUMBERS)
    for name in ("mul.Tensor", "div.Tensor", "maximum", "minimum", "fmax", "fmin"):
        _add(f"aten::{name}", Pointwise(2))
    for name, count in (("clamp.Tensor", 3), ("clamp_min.Tensor", 2), ("clamp_max.Tensor", 2)):
        _add(f"aten::{name}", Pointwise(count))
    scalars = tuple(((s,), {}) for s in (0.5, 2.0, 3.0, -1.7))
    for name in ("add", "sub", "mul", "div"):
        _add(f"aten::{name}.Scalar", Pointwise(1, scalars), SINGLE)
    for name in ("eq", "lt", "gt", "ge", "le", "ne"):
        _add(f"aten::{name}.Scalar", Pointwise(1, (((2,), {}), ((0,), {})), float_rest=(((-1.7,), {}),)))
        _add(f"aten::{name}.Tensor", Pointwise(2))
    _powers()
    for name in ("addcmul", "addcdiv"):
        _add(f"aten::{name}", Pointwise(3, (NONE, ((), {"value": 0.1}), ((), {"value": -0.001}))), FLOATS)
    _add("aten::lerp.Scalar", Pointwise(2, tuple(((w,), {}) for w in (0.1, 0.5, 0.9, 0.001, 1.0))), FLOATS)
    _add("aten::lerp.Tensor", Pointwise(3), FLOATS)
    for name in ("atan2", "hypot", "copysign.Tensor", "nextafter", "heaviside"):
        _add(f"aten::{name}", Pointwise(2), FLOATS)
    _add("aten::nan_to_num", Pointwise(rest=(NONE, ((0.5, 1.0, -1.0), {}))), FLOATS)


def _powers() -> None:
    exponents = tuple(((s,), {}) for s in (2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 0.0, 1.0, 1.7))
    whole = tuple(((s,), {}) for s in (2, 3, 0, 1, 5))
    powers = Pointwise(1, whole, float_rest=exponents)
    _add("aten::pow.Tensor_Scalar", powers, NUMBERS, Exhaustive(VECTOR, exponents[:-3]))
    _add("aten::pow.Tensor_Tensor", Pointwise(2), NUMBERS)
    bases = [Rows(lambda make, s, b=base: ((b, make(s, "mixed")), {}), ROW_SHAPES) for base in (0.0, 0.5, 1.0, 2.0, -1.7)]
    _add("aten::pow.Scalar", Several(bases), FLOATS)


def _gradients() -> None:
    for name, rest in (
        ("gelu", _GELU), ("sigmoid", (NONE,)), ("tanh", (NONE,)), ("silu", (NONE,)), ("mish", (NONE,)), ("hardswish", (NONE,)),
        ("softplus", _SOFTPLUS), ("hardtanh", (((-1.0, 1.0), {}),)), ("softshrink", (((0.5,), {}),)),
        ("hardshrink", (((0.5,), {}),)), ("hardsigmoid", (NONE,)), ("leaky_relu", (((0.01, False), {}),)),
        ("threshold", (((0.0,), {}),)),
    ):  # fmt: skip
        _add(f"aten::{name}_backward", Pointwise(2, rest, broadcast=False))
    _add("aten::log_sigmoid_backward", Pointwise(3, broadcast=False), FLOATS)
    _add("aten::_prelu_kernel", Pointwise(2), FLOATS)
    scales = ((1.0, 1.0, 1.0, False), (1.5, 0.5, 2.0, False), (1.5, 0.5, 2.0, True))
    elu = [Rows(lambda make, s, w=words: ((make(s, "mixed"), *w, make(s, "mixed")), {}), ROW_SHAPES) for words in scales]
    _add("aten::elu_backward", Several(elu), FLOATS)


def _reductions() -> None:
    _add("aten::sum", Reduction("none"), (torch.float32, torch.int64))
    _add("aten::mean", Reduction("none"), SINGLE)
    _add("aten::prod", Reduction("none"), NUMBERS)
    _add("aten::prod.dim_int", Reduction("int"), NUMBERS)
    for name in ("sum.dim_IntList", "nansum"):
        _add(f"aten::{name}", Reduction("list"))
    for name in ("amax", "amin"):
        _add(f"aten::{name}", Reduction("list", kinds=("special", "zeros")))
    for name in ("mean.dim", "logsumexp"):
        _add(f"aten::{name}", Reduction("list"), FLOATS)
    corrections = (((), {"correction": 1}), ((), {"correction": 0}))
    for name in ("var", "std", "var_mean", "std_mean"):
        _add(f"aten::{name}.correction", Reduction("list", corrections, keepdim=False), FLOATS)
    for name in ("max.dim", "min.dim", "argmax", "argmin"):
        _add(f"aten::{name}", Reduction("int", kinds=("special", "zeros")), NUMBERS)
    for name in ("max", "min"):
        _add(f"aten::{name}", Reduction("none", kinds=("special", "zeros")), NUMBERS)
    for name in ("cumsum", "cumprod"):
        _add(f"aten::{name}", Reduction("int", keepdim=False), NUMBERS)
    for name in ("_softmax", "_log_softmax"):
        _add(f"aten::{name}", Reduction("int", (((False,), {}),), keepdim=False), FLOATS)
    _add("aten::_safe_softmax", Reduction("int", keepdim=False), FLOATS)
    _norms()


def _norms() -> None:
    def norms(**options: Any) -> Several:
        orders = [((p,), options) for p in (2.0, 1.0, 0.0, float("inf"), -float("inf"), 3.0, 0.5)]
        most, *others = (Reduction("list", (order,), before=True) for order in orders)
        return Several((most, *map(Brief, others)))

    _add("aten::linalg_vector_norm", norms(), FLOATS)
    _add("aten::norm.ScalarOpt_dim", norms(), FLOATS)
    _add("aten::norm.ScalarOpt_dim_dtype", norms(dtype=torch.float32), SINGLE)
    lists = lambda make, s: (([make(s), make((3,), "mixed"), make((65, 32)), make((0,))], 2.0), {})  # noqa: E731
    _add("aten::_foreach_norm.Scalar", Rows(lists, ROW_SHAPES), FLOATS)


def _blas() -> None:
    kinds = (torch.float32, torch.int64, torch.int32, torch.uint8)
    for name in ("mm", "bmm", "mv", "dot", "vdot", "addmm", "baddbmm", "addbmm", "addmv", "addr", "_addmm_activation", "linear"):
        build = getattr(products, {"vdot": "dot", "_addmm_activation": "addmm_activation"}.get(name, name))
        base = f"aten::{name}"
        _add(base, products.Products(build), kinds if name not in ("mv", "linear") else SINGLE)
        for form in (f"{base}_", f"{base}.out"):
            if form in registry.load():
                _add(form, products.Products(build, form.removeprefix(base)), kinds)


def _forms() -> None:
    """The in-place, out and grad_input forms that the device declares and nothing above lists."""
    known = dict(SPECS)
    for op in registry.load():
        base = None if op in known else forms.functional(op, known)
        if base is not None:
            SPECS[op] = Spec(op, known[base].dtypes, forms.Form(base, known[base].family))


for _declare in (_unary, _binary, _gradients, _reductions, _blas):
    _declare()
for _module in (model_specs, random_specs, movement_specs, element_specs, window_specs):
    _module.declare(_add)
_forms()


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
