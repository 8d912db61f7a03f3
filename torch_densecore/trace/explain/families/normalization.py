"""Layer norm and its backward: lanes of the moments and of the row sums, fusion, thread chunks of the weight's gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from ...replay import Call
from .. import orders
from ..arith import F32, Array, fma, multiply_add
from ..model import (
    LANE_NAMES,
    LANES,
    MAX_WORK,
    REDUCTIONS,
    THREADS,
    Family,
    Model,
    argument,
    fusion_words,
    model,
    numpy_of,
    tensor_argument,
)

# -- forward --------------------------------------------------------------------------------------------------------


def _layer_norm(call: Call) -> Iterator[Model]:
    size = int(np.prod(argument(call, 1, "normalized_shape")))
    x = numpy_of(call.inputs[0]).reshape(-1, size)
    weight, bias = (tensor_argument(call, i, name) for i, name in ((2, "weight"), (3, "bias")))
    gamma = np.ones(size, F32) if weight is None else weight.reshape(-1)
    beta = np.zeros(size, F32) if bias is None else bias.reshape(-1)
    eps = F32(argument(call, 4, "eps", 1e-5))
    fusions = ((True, True), (True, False), (False, False))
    merges = {"2.13": "", "2.4": "chunks merged as in torch 2.4"} if size > 8 * orders.MOMENTS_CHUNK else {"2.13": ""}
    for lanes, (fused, tail), merge in product(LANES, fusions, merges):
        moments = orders.moments(x, lanes, fused, tail, merge)
        yield from _scaled_models(call, x, gamma, beta, eps, moments, lanes, fused, tail, merges[merge])


def _scaled_models(
    call: Call, x: Array, gamma: Array, beta: Array, eps: Array, moments: tuple[Array, Array], lanes: int, fused: bool,
    tail: bool, merge: str,
) -> Iterator[Model]:  # fmt: skip
    for words, scaling in SCALINGS.items():
        yield model(
            lambda s=scaling: _layer_norm_outputs(call, x, gamma, beta, eps, moments, s),
            order=f"mean and variance in {LANE_NAMES[lanes]}",
            moments=f"moments {'with' if fused else 'without'} fused multiply-add",
            tail=f"{'fused' if tail else 'rounded'} in the row's tail",
            scaling=words,
            merge=merge,
        )


def _centered(fused: bool) -> Callable[..., Array]:
    return lambda x, mean, rstd, gamma, beta: multiply_add((x - mean) * rstd, gamma, beta, fused)


def _shifted(fused: bool) -> Callable[..., Array]:
    def scaled(x: Array, mean: Array, rstd: Array, gamma: Array, beta: Array) -> Array:
        return multiply_add(multiply_add(x, rstd, -rstd * mean, fused), gamma, beta, fused)

    return scaled


# torch 2.13 subtracts the mean first, earlier releases fold it into a shift
SCALINGS = {
    "(x - mean) * rstd, then fused with weight and bias": _centered(True),
    "(x - mean) * rstd, then a rounded product with the weight": _centered(False),
    "x * rstd - mean * rstd, fused": _shifted(True),
    "x * rstd - mean * rstd, rounded": _shifted(False),
}


def _layer_norm_outputs(
    call: Call, x: Array, gamma: Array, beta: Array, eps: Array, moments: tuple[Array, Array], scaling: Callable
) -> list[Array]:
    mean, variance = moments
    rstd = (F32(1) / np.sqrt(np.maximum(variance, F32(0)) + eps)).astype(F32)
    y = scaling(x, mean[:, None], rstd[:, None], gamma, beta)
    shapes = [meta["shape"] for meta in call.site.outputs]
    return [value.astype(F32).reshape(shape) for value, shape in zip((y, mean, rstd), shapes, strict=True)]


# -- backward -------------------------------------------------------------------------------------------------------

# of a row's sums: which products are fused, in the vectors and in the tail
TAIL = "a row's products fused in the tail"
SUMS = {"a row's products rounded": (False, False), TAIL: (False, True), "a row's products fused (torch 2.4)": (True, True)}


def _layer_norm_backward(call: Call) -> Iterator[Model]:
    size = int(np.prod(argument(call, 2, "normalized_shape")))
    dy, x = (numpy_of(tensor).reshape(-1, size) for tensor in call.inputs[:2])
    mean, rstd = (numpy_of(tensor).reshape(-1, 1) for tensor in call.inputs[2:4])
    weight = tensor_argument(call, 5, "weight")
    weight = None if weight is None else weight.reshape(-1)
    mask = argument(call, 7, "output_mask")
    inputs = {
        (reduction, sums, scalars, words): _input_gradient(dy, x, mean, rstd, weight, reduction, sums, scalars, combine)
        for reduction, sums, scalars, (words, combine) in product(REDUCTIONS, SUMS, (True, False), _COMBINATIONS.items())
        if sums != TAIL or size % max(LANES)
    }
    unknown = (None, None)  # of long calls the input's gradient alone is judged
    parameters = {
        (threads, fused): _parameter_gradients(dy, x, mean, rstd, threads, fused) if x.size <= MAX_WORK else unknown
        for threads, fused in product(THREADS, (True, False))
    }
    for key, (threads, fused) in product(inputs, parameters):
        reduction, sums, scalars, words = key
        yield model(
            lambda key=key, at=(threads, fused): _chosen(call, mask, [inputs[key], *parameters[at]]),
            order=REDUCTIONS[reduction].replace("adds", "adds a row"),
            sums=sums,
            scalars=f"a row's factors {'fused' if scalars else 'rounded'}",
            threads=f"the weight's gradient by {threads} thread{'s' if threads > 1 else ''}" if mask[1] or mask[2] else "",
            multiply_add=fusion_words(fused),
            scaling=words,
        )


def _input_gradient(
    dy: Array, x: Array, mean: Array, rstd: Array, weight: Array | None,
    reduction: tuple[int, str], sums: str, scalars: bool, combine: Callable[..., Array],
) -> Array:  # fmt: skip
    scale = F32(1) / F32(x.shape[1])
    gamma = np.ones_like(x) if weight is None else np.broadcast_to(weight, x.shape)
    (lanes, final), (fused, tail) = reduction, SUMS[sums]
    db = orders.lane_products(dy, gamma, lanes, fused, final, tail)[:, None]
    ds = orders.lane_products((dy * x).astype(F32), gamma, lanes, fused, final, tail)[:, None]
    b = (multiply_add(db, mean, -ds, scalars) * rstd * rstd * rstd * scale).astype(F32)
    c = multiply_add(-b, mean, -(db * rstd * scale).astype(F32), scalars)
    return combine((rstd * dy).astype(F32), gamma, b, x, c)


_COMBINATIONS: dict[str, Callable[..., Array]] = {
    "the input's gradient rounded step by step": lambda g, gamma, b, x, c: ((g * gamma + b * x) + c).astype(F32),
    "the product with x fused": lambda g, gamma, b, x, c: fma(b, x, (g * gamma).astype(F32)) + c,
    "the product with the weight fused": lambda g, gamma, b, x, c: fma(g, gamma, (b * x).astype(F32)) + c,
}


def _parameter_gradients(dy: Array, x: Array, mean: Array, rstd: Array, threads: int, fused: bool) -> tuple[Array, Array]:
    """Gradients of weight and bias: rows added in order by each thread, then the threads' sums."""
    normal = multiply_add(rstd, x, (-rstd * mean).astype(F32), fused)
    rows = x.shape[0]
    chunk = -(-rows // min(threads, rows))
    total_gamma, total_beta = np.zeros(x.shape[1], F32), np.zeros(x.shape[1], F32)
    for begin in range(0, rows, chunk):
        gamma, beta = np.zeros(x.shape[1], F32), np.zeros(x.shape[1], F32)
        for row in range(begin, min(begin + chunk, rows)):
            gamma = multiply_add(dy[row], normal[row], gamma, fused)
            beta = beta + dy[row]
        total_gamma, total_beta = total_gamma + gamma, total_beta + beta
    return total_gamma, total_beta


def _chosen(call: Call, mask: list[bool], gradients: list[Array | None]) -> list[Array | None]:
    """The gradients that were asked for, in the recorded shapes."""
    values = [value for value, wanted in zip(gradients, mask, strict=True) if wanted]
    shapes = [meta["shape"] for meta in call.site.outputs]
    return [None if value is None else value.reshape(shape) for value, shape in zip(values, shapes, strict=True)]


FAMILIES: dict[str, Family] = {"native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward}
