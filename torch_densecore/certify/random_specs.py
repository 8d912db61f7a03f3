"""Inputs of random operators. Both sides start from the call's seed: the stream and what becomes of it must be the reference's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .families import ROW_SHAPES, Rows, Several
from .inputs import EVERY, INTEGERS

SINGLE_DOUBLE = (torch.float32, torch.float64)
# Below 16 elements and from there on normal_ takes other code; then vectors, a state of 624 words and parallel chunks.
SIZES = tuple((n,) for n in (0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 100, 623, 624, 625, 1000, 4097, 32769, 100003))
LAYOUTS = ("contiguous", "strided")
MAKE = Callable[..., torch.Tensor]

FILLS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "normal_": ((0.5, 2.0), (0.0, 1.0), (0.0, 0.0)),
    "uniform_": ((-1.0, 3.0), (0.0, 1.0), (2.0, 2.0)),
    "exponential_": ((1.5,),),
    "log_normal_": ((0.0, 0.5),),
    "geometric_": ((0.3,),),
    "cauchy_": ((0.0, 1.0),),
    "bernoulli_.float": ((0.3,), (0.0,), (1.0,)),
    "random_": ((),),
    "random_.to": ((7,), (127,)),
    "random_.from": ((3, 100), (0, None)),
}


def _fill(words: tuple[Any, ...]) -> Rows:
    return Rows(lambda make, s: ((make(s), *words), {}), SIZES, layouts=LAYOUTS)


def _with_tensors(build: Callable[[MAKE, tuple[int, ...]], tuple[Any, ...]]) -> Rows:
    return Rows(lambda make, s: (build(make, s), {}), SIZES, layouts=LAYOUTS)


def _multinomial(samples: int, replacement: bool) -> Rows:
    def build(make: MAKE, shape: tuple[int, ...]) -> tuple[Any, Any]:
        weights = make(shape, "unit") + 2.0**-10  # without replacement every weight must be positive
        return (weights, samples if replacement else min(samples, shape[-1]), replacement), {}

    return Rows(build, ROW_SHAPES)


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for name, alternatives in FILLS.items():
        add(f"aten::{name}", Several([_fill(words) for words in alternatives]), EVERY)
    add("aten::bernoulli_.Tensor", _with_tensors(lambda make, s: (make(s), make(s, "unit", torch.float32))), EVERY)
    add("aten::bernoulli", _with_tensors(lambda make, s: (make(s, "unit"),)), SINGLE_DOUBLE)
    add("aten::normal.Tensor_float", _with_tensors(lambda make, s: (make(s), 1.5)), SINGLE_DOUBLE)
    add("aten::normal.float_Tensor", _with_tensors(lambda make, s: (0.5, make(s, "unit"))), SINGLE_DOUBLE)
    add("aten::normal.Tensor_Tensor", _with_tensors(lambda make, s: (make(s), make(s, "unit"))), SINGLE_DOUBLE)
    dropouts = [_fill(words) for words in ((0.2, True), (0.0, True), (1.0, True), (0.5, False))]
    add("aten::native_dropout", Several(dropouts), SINGLE_DOUBLE)
    draws = [_multinomial(samples, again) for samples, again in ((1, False), (5, False), (7, True))]
    add("aten::multinomial", Several(draws), SINGLE_DOUBLE)
    _integers(add)


def _integers(add: Callable[..., None]) -> None:
    contiguous = ("contiguous",)
    add("aten::randperm", Rows(lambda make, s: ((s[0],), {}), SIZES, layouts=contiguous), (torch.int64,))

    def permuted(make: MAKE, shape: tuple[int, ...]) -> tuple[Any, Any]:
        return (shape[0],), {"generator": None, "out": make((0,))}

    small = tuple(shape for shape in SIZES if shape[0] < 128)  # that int8 can count
    add("aten::randperm.generator_out", Rows(permuted, small, layouts=contiguous), INTEGERS)
    add("aten::randint", Rows(lambda make, s: ((1000, [s[0]]), {}), SIZES, layouts=contiguous), (torch.int64,))
    add("aten::randint.low", Rows(lambda make, s: ((-5, 9, [s[0]]), {}), SIZES, layouts=contiguous), (torch.int64,))
    add("aten::rand", Rows(lambda make, s: (([s[0]],), {}), SIZES, layouts=contiguous), (torch.float32,))
    add("aten::randn", Rows(lambda make, s: (([s[0]],), {}), SIZES, layouts=contiguous), (torch.float32,))
