"""Candidate arithmetic for each family of operators: what a side may have computed, and how to say it.

A `Model` has traits ("lanes": "4", "multiply-add": "fused") and a function from the call's inputs to its outputs. Two
sides are explained by the traits in which the models that reproduce them differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from ..replay import Call
from . import arith, orders
from .arith import F32, Array

LANES = (4, 8, 16)
LANE_NAMES = {4: "4 lanes (NEON, SSE)", 8: "8 lanes (AVX2 or generic)", 16: "16 lanes (AVX-512)"}
THREADS = (1, 2, 4, 8)
MAX_WORK = 4e6  # multiply-adds that one model may cost; of larger products the first rows are tried


@dataclass(frozen=True)
class Model:
    """One candidate. compute: outputs (numpy) in the order of the event; None: an output it says nothing about."""

    traits: tuple[tuple[str, str], ...]
    compute: Callable[[], list[Array | None]]
    rows: int | None = None  # of the first output, when only its first rows are computed (large products)

    def words(self) -> str:
        return ", ".join(text for _, text in self.traits)


def candidates(call: Call) -> list[Model]:
    """All models for the call's operator; [] when the family is not known or the dtype is not float32."""
    base = call.site.op.partition("::")[2].partition(".")[0]
    family = _FAMILIES.get(base)
    if family is None:
        return []
    if any(t.is_floating_point() and t.dtype not in (torch.float32,) for t in call.inputs) and base not in _ANY_DTYPE:
        return []
    try:
        return list(family(call))
    except (IndexError, KeyError, ValueError, TypeError):  # arguments in a form that the family does not handle
        return []


def _model(compute: Callable[[], Any], rows: int | None = None, **traits: str) -> Model:
    def outputs() -> list[Array | None]:
        result = compute()
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return Model(tuple((name.replace("_", " "), text) for name, text in traits.items()), outputs, rows)


def _argument(call: Call, position: int, name: str, default: Any = None) -> Any:
    args, kwargs = call.site.args
    return args[position] if position < len(args) else kwargs.get(name, default)


def _numpy(tensor: torch.Tensor) -> Array:
    return tensor.detach().contiguous().numpy()


# -- reductions -----------------------------------------------------------------------------------------------------


def _sum(call: Call, scale: Callable[[Array, int], Array] = lambda total, count: total) -> Iterator[Model]:
    x = _numpy(call.inputs[0])
    dims = _argument(call, 1, "dim") if ".dim" in call.site.op else None
    dims = sorted(d % x.ndim for d in (dims if isinstance(dims, list) else range(x.ndim)))
    shape = tuple(call.site.outputs[0]["shape"])
    if dims == list(range(x.ndim - len(dims), x.ndim)):
        rows = x.reshape(int(np.prod(x.shape[: x.ndim - len(dims)], dtype=int)), -1)
        count = rows.shape[1]
        yield _model(lambda: scale(orders.sequential(rows), count).reshape(shape), order="adds from left to right")
        yield _model(lambda: scale(orders.pairwise(rows), count).reshape(shape), order="adds halves recursively")
        for lanes, threads in product(LANES, THREADS if rows.shape[0] == 1 and count >= 32768 else (1,)):
            yield _model(
                lambda n=lanes, t=threads: scale(orders.cascade_chunks(rows, n, t), count).reshape(shape),
                order=f"adds in {LANE_NAMES[lanes]}",
                threads=f"cut into {threads} thread chunks" if threads > 1 else "in one piece",
            )
    elif dims == list(range(len(dims))):
        columns = x.reshape(int(np.prod(x.shape[: len(dims)], dtype=int)), -1)
        count = columns.shape[0]
        yield _model(lambda: scale(orders.sequential(columns.T), count).reshape(shape), order="adds from left to right")
        for lanes in LANES:
            yield _model(
                lambda n=lanes: scale(orders.outer(columns, n), count).reshape(shape),
                order=f"adds columns in blocks of {4 * lanes} ({LANE_NAMES[lanes]})",
            )


def _mean(call: Call) -> Iterator[Model]:
    yield from _sum(call, lambda total, count: (total / F32(count)).astype(F32))


def _layer_norm(call: Call) -> Iterator[Model]:
    shape = _argument(call, 1, "normalized_shape")
    size = int(np.prod(shape))
    x = _numpy(call.inputs[0]).reshape(-1, size)
    slots = [_argument(call, i, name) for i, name in ((2, "weight"), (3, "bias"))]
    weight, bias = (None if s is None else _numpy(call.inputs[s["$"]]).reshape(-1) for s in slots)
    eps = F32(_argument(call, 4, "eps", 1e-5))
    fusions = ((True, True), (True, False), (False, False))
    for lanes, (fused, tail), (words, scaling) in product(LANES, fusions, SCALINGS.items()):
        yield _model(
            lambda n=lanes, f=(fused, tail), s=scaling: _layer_norm_outputs(call, x, weight, bias, eps, n, f, s),
            order=f"mean and variance in {LANE_NAMES[lanes]}",
            moments=f"moments {'with' if fused else 'without'} fused multiply-add",
            tail=f"{'fused' if tail else 'rounded'} in the row's tail",
            scaling=words,
        )


def _centered(fused: bool) -> Callable[..., Array]:
    return lambda x, mean, rstd, gamma, beta: orders.multiply_add((x - mean) * rstd, gamma, beta, fused)


def _shifted(fused: bool) -> Callable[..., Array]:
    def scaled(x: Array, mean: Array, rstd: Array, gamma: Array, beta: Array) -> Array:
        return orders.multiply_add(orders.multiply_add(x, rstd, -rstd * mean, fused), gamma, beta, fused)

    return scaled


# torch 2.13 subtracts the mean first, earlier releases fold it into a shift
SCALINGS = {
    "(x - mean) * rstd, then fused with weight and bias": _centered(True),
    "(x - mean) * rstd, then a rounded product with the weight": _centered(False),
    "x * rstd - mean * rstd, fused": _shifted(True),
    "x * rstd - mean * rstd, rounded": _shifted(False),
}


def _layer_norm_outputs(
    call: Call,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: Array,
    lanes: int,
    fused: tuple[bool, bool],
    scaling: Callable,
) -> list[Array]:
    mean, variance = orders.moments(x, lanes, *fused)
    rstd = (F32(1) / np.sqrt(np.maximum(variance, F32(0)) + eps)).astype(F32)
    gamma = np.ones(x.shape[1], F32) if weight is None else weight
    beta = np.zeros(x.shape[1], F32) if bias is None else bias
    y = scaling(x, mean[:, None], rstd[:, None], gamma, beta)
    shapes = [meta["shape"] for meta in call.site.outputs]
    return [value.astype(F32).reshape(shape) for value, shape in zip((y, mean, rstd), shapes, strict=True)]


EXPONENTIALS = {
    "exp by SLEEF (1.0 ulp)": arith.exp_sleef,
    "exp by ATen's exp_u20 polynomial": arith.exp_u20,
    "exp correctly rounded": arith.correctly_rounded(np.exp),
}


def _softmax(call: Call) -> Iterator[Model]:
    x = _numpy(call.inputs[0])
    if _argument(call, 1, "dim") % x.ndim != x.ndim - 1:
        return
    logarithm = "log_softmax" in call.site.op
    shifted = x - x.max(-1, keepdims=True)
    combinations = product(EXPONENTIALS.items(), LANES, ("halves", "adjacent", "order"), (False, True))
    for (name, exp), lanes, final, divides in combinations:
        if logarithm and divides:
            continue
        yield _model(
            lambda e=exp, n=lanes, f=final, d=divides: _softmax_output(x, shifted, e, n, f, d, logarithm),
            function=name,
            order=f"adds in {LANE_NAMES[lanes]}",
            lanes={"halves": "lanes added by halves", "adjacent": "adjacent lanes added", "order": "lanes added in order"}[final],
            scaling="divides by the sum" if divides else "multiplies with the sum's reciprocal",
        )  # fmt: skip


def _softmax_output(
    x: Array, shifted: Array, exp: Callable, lanes: int, final: str, divides: bool, logarithm: bool
) -> Array:
    e = exp(shifted)
    total = orders.lane_reduce(e, lanes, final)[..., None]
    if logarithm:
        return shifted - np.log(total.astype(np.float64)).astype(F32)
    return e / total if divides else e * (F32(1) / total)


# -- products -------------------------------------------------------------------------------------------------------


def _products(call: Call) -> Iterator[Model]:
    base = call.site.op.partition("::")[2].partition(".")[0]
    tensors = [_numpy(tensor) for tensor in call.inputs]
    start = tensors.pop(0) if base in ("addmm", "baddbmm", "addmv") else None
    if start is not None and (_argument(call, 3, "beta", 1) != 1 or _argument(call, 3, "alpha", 1) != 1):
        return
    a, b = tensors
    if base in ("mv", "addmv", "dot"):
        left, right = a, b  # (m, k) . (k) or (k) . (k)
    else:
        left, right = a[..., :, None, :], np.swapaxes(b, -1, -2)[..., None, :, :]
    k = a.shape[-1]
    rows = None
    if np.prod(call.site.outputs[0]["shape"], dtype=float) * k > MAX_WORK:
        if base not in ("mm", "addmm"):
            return
        rows = max(1, int(MAX_WORK // (k * b.shape[1])))
        left = left[:rows]
        start = start[:rows] if start is not None and start.ndim == 2 else start
    blocks = (32, 64, 128, 192, 256, 320, 384, 448, 512, 768, 1024)
    done: dict[tuple, Array] = {}  # blocks that are longer than k are one chain
    beginnings = ("last", "first", "block by block") if start is not None else ("none",)
    chains = [(1, 1, 0, False, fused) for fused in (True, False)]
    chains += [(1, 1, block, halves, True) for block in blocks for halves in (True, False)]
    chains += [(1, n, 0, False, True) for n in (2, 4)]
    chains += [(lanes, n, 0, False, fused) for lanes in LANES for n in (1, 2, 4) for fused in (True, False)]
    for (lanes, accumulators, block, halves, fused), at in product(chains, beginnings):
        cut = tuple(orders.blocks_of(k, block, halves))
        yield _model(
            lambda q=(lanes, accumulators, block, halves, fused), c=cut, at=at: _product(
                left, right, start, q, c, at, done
            ),
            rows,
            order=_order_words(lanes, accumulators, block, halves),
            multiply_add="fused multiply-add" if fused else "rounded products",
            **({} if start is None else {"start": _START[at]}),
        )


def _product(
    left: Array, right: Array, start: Array | None, order: tuple, cut: tuple, at: str, done: dict[tuple, Array]
) -> Array:
    lanes, accumulators, block, halves, fused = order
    key = (lanes, accumulators, fused, cut, at)
    if key not in done:
        shape = {"lanes": lanes, "accumulators": accumulators, "block": block, "halves": halves, "fused": fused}
        if at == "last":
            done[key] = (start + orders.dot(left, right, **shape)).astype(F32)
        else:
            done[key] = orders.dot(left, right, **shape, start=start, continues=at != "block by block")
    return done[key]


_START = {
    "last": "the added matrix comes last",
    "first": "the added matrix begins the chain",
    "block by block": "the blocks are added to the matrix one by one",
}


def _order_words(lanes: int, accumulators: int, block: int, halves: bool) -> str:
    if lanes == accumulators == 1:
        short = f", two halves below {2 * block}" if halves else ""
        return f"one chain along k in blocks of {block}{short}" if block else "one chain along k"
    if lanes == 1:
        return f"{accumulators} chains that take turns along k"
    return f"dot products in {LANE_NAMES[lanes]}, {accumulators} accumulator{'s' if accumulators > 1 else ''}"


# -- element by element ---------------------------------------------------------------------------------------------


def _function(name: str, exact: Callable[[Array], Array], **variants: Callable[[Array], Array]) -> Callable:
    def family(call: Call) -> Iterator[Model]:
        x = _numpy(call.inputs[0])
        yield _model(lambda: arith.correctly_rounded(exact)(x), function=f"{name} correctly rounded")
        host = arith.libm(f"{name}f")
        if host is not None and x.size <= 1 << 20:
            yield _model(lambda: host(x), function=f"{name} of this machine's C library")
        for words, variant in variants.items():
            yield _model(lambda v=variant: v(x), function=f"{name} by {words.replace('_', ' ')}")

    return family


def _gelu(call: Call) -> Iterator[Model]:
    if _argument(call, 1, "approximate", "none") != "none":
        return
    x = _numpy(call.inputs[0])
    half = F32(0.70710678118654752440)
    for name, erf in (
        ("erf by ATen's polynomial with exp_u20", arith.erf_polynomial),
        ("erf correctly rounded", arith.correctly_rounded(arith.erf64)),
        ("erf of this machine's C library", arith.libm("erff")),
    ):
        if erf is not None:
            yield _model(lambda e=erf: x * F32(0.5) * (F32(1) + e(x * half)), function=name, form="x * 0.5 first")
            yield _model(lambda e=erf: F32(0.5) * x * (F32(1) + e(x * half)), function=name, form="0.5 * x first")


def _fusable(call: Call) -> Iterator[Model]:
    """addcmul, addcdiv, add with alpha, lerp: which multiply-adds are fused, in the vector body and in the tail."""
    base = call.site.op.partition("::")[2].partition(".")[0].rstrip("_")
    forms = dict(_FORMS[base](call))
    size = next(iter(forms.values())).size
    for (name, value), (tail_name, tail) in product(forms.items(), forms.items()):
        if name == tail_name:
            yield _model(lambda v=value: v, form=name)
            continue
        for width in (4, 8, 16, 32, 64):
            body = size - size % width
            if body not in (0, size):
                yield _model(
                    lambda v=value, t=tail, b=body, s=value.shape: np.concatenate(
                        [v.reshape(-1)[:b], t.reshape(-1)[b:]]
                    ).reshape(s),
                    form=f"{name}, the last {size - body} elements {tail_name}",
                )


def _addcmul_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, t1, t2 = (_numpy(t) for t in call.inputs)
    value = F32(_argument(call, 3, "value", 1))
    yield "rounded products", (x + value * t1 * t2).astype(F32)
    yield "fused last step", arith.fma(value * t1, t2, x)
    yield "value times the rounded product, fused", arith.fma(np.broadcast_to(value, t1.shape), t1 * t2, x)


def _addcdiv_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, t1, t2 = (_numpy(t) for t in call.inputs)
    value = F32(_argument(call, 3, "value", 1))
    yield "value times t1, divided, added", (x + value * t1 / t2).astype(F32)
    yield "value times the quotient, added", (x + value * (t1 / t2)).astype(F32)
    yield "value times the quotient, fused", arith.fma(np.broadcast_to(value, t1.shape), t1 / t2, x)


def _add_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, y = (_numpy(t) for t in call.inputs)
    alpha = F32(_argument(call, 2, "alpha", 1))
    yield "rounded product", (x + alpha * y).astype(F32)
    yield "fused multiply-add", arith.fma(np.broadcast_to(alpha, y.shape), y, x)


def _lerp_forms(call: Call) -> Iterator[tuple[str, Array]]:
    x, end = (_numpy(t) for t in call.inputs[:2])
    weight = F32(_argument(call, 2, "weight"))
    near = abs(weight) < 0.5
    factor, base = (weight, x) if near else (weight - F32(1), end)
    yield "rounded product", (base + factor * (end - x)).astype(F32)
    yield "fused multiply-add", arith.fma(np.broadcast_to(factor, x.shape), end - x, base)


_FORMS = {"addcmul": _addcmul_forms, "addcdiv": _addcdiv_forms, "add": _add_forms, "lerp": _lerp_forms}


def _convert(call: Call) -> Iterator[Model]:
    """Conversions: how bfloat16 is rounded, what happens to floats outside an integer's range."""
    x, target = _numpy(call.inputs[-1].float()), call.site.outputs[0]["dtype"]
    if target == "bfloat16":
        bits = x.view(np.uint32)
        yield _model(lambda: (bits >> 16).astype(np.uint16), rounding="bfloat16 by truncation")
        even = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        yield _model(lambda: even, rounding="bfloat16 rounded to nearest even")
    elif target in ("int8", "int16", "int32", "int64", "uint8"):
        kind = np.dtype(target)
        limits = np.iinfo(kind)
        clipped = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), float(limits.min), float(limits.max))
        with np.errstate(invalid="ignore"):
            top = np.where(clipped >= float(limits.max), limits.max, clipped.astype(np.int64))
        yield _model(lambda: top.astype(kind), range="values out of range saturate, NaN is 0 (Arm)")
        wide = np.where(np.abs(x) < 2.0**63, x, -(2.0**63)).astype(np.int64)
        yield _model(lambda: wide.astype(kind), range="values out of range wrap around (x86)")
        lost = np.where((x >= -(2.0**31)) & (x < 2.0**31), x, -(2.0**31)).astype(np.int64)
        yield _model(lambda: lost.astype(kind), range="values out of range become the smallest integer (x86)")


def _normal(call: Call) -> Iterator[Model]:
    from .random import normal_models

    for words, compute in normal_models(call):
        yield _model(compute, algorithm=words)


def _uniform(call: Call) -> Iterator[Model]:
    from .random import uniform_models

    for words, compute in uniform_models(call):
        yield _model(compute, algorithm=words)


def _reciprocal(call: Call) -> Iterator[Model]:
    x = _numpy(call.inputs[0])
    with np.errstate(all="ignore"):
        yield _model(lambda: (F32(1) / x).astype(F32), function="exact division")
        estimate = (1.0 / x.astype(np.float64)).astype(np.float16).astype(F32)
        yield _model(lambda: estimate * (F32(2) - x * estimate), function="a Newton step from an estimate")


def _root(call: Call) -> Iterator[Model]:
    x = _numpy(call.inputs[0])
    with np.errstate(all="ignore"):
        root = np.sqrt(x)
        inverse = (1.0 / np.sqrt(x.astype(np.float64))).astype(F32)
        if "rsqrt" in call.site.op:
            yield _model(lambda: (F32(1) / root).astype(F32), function="1 / sqrt(x), each exact")
            yield _model(lambda: inverse, function="1 / sqrt(x) rounded once")
        else:
            yield _model(lambda: root, function="exact square root (IEEE)")
            yield _model(lambda: x * inverse, function="x times an inverse square root")


_FAMILIES: dict[str, Callable[[Call], Iterator[Model]]] = {
    "sum": _sum, "mean": _mean, "native_layer_norm": _layer_norm, "_softmax": _softmax, "_log_softmax": _softmax,
    "_safe_softmax": _softmax, "mm": _products, "bmm": _products, "addmm": _products, "baddbmm": _products,
    "mv": _products, "addmv": _products, "dot": _products, "gelu": _gelu, "addcmul": _fusable, "addcmul_": _fusable,
    "addcdiv": _fusable, "addcdiv_": _fusable, "add": _fusable, "add_": _fusable, "lerp": _fusable,
    "lerp_": _fusable, "_to_copy": _convert, "copy_": _convert, "normal_": _normal, "uniform_": _uniform, "reciprocal": _reciprocal,
    "sqrt": _root, "rsqrt": _root, "sqrt_": _root, "rsqrt_": _root,
    "exp": _function("exp", np.exp, SLEEF=arith.exp_sleef, **{"ATen's_exp_u20_polynomial": arith.exp_u20}),
    "erf": _function("erf", arith.erf64, **{"ATen's_polynomial_with_exp_u20": arith.erf_polynomial}),
    "log": _function("log", np.log), "tanh": _function("tanh", np.tanh), "sin": _function("sin", np.sin),
    "cos": _function("cos", np.cos), "log1p": _function("log1p", np.log1p), "expm1": _function("expm1", np.expm1),
}  # fmt: skip
_ANY_DTYPE = ("_to_copy", "copy_")
