"""Inputs of operators that move, select, compare or count elements, most of them served by the host's kernel (`exact` tier).

Their results hang on special values: NaN among the sorted, equal keys, the two zeros, indices at both ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .families import Pointwise, Rows
from .inputs import FLOATS, INTEGERS

EVERY = (*FLOATS, *INTEGERS, torch.bool)
NUMBERS = (*FLOATS, *INTEGERS)
EXACT_FLOATS = (torch.float32, torch.float64)
SHAPES = ((1, 1), (3, 5), (4, 8), (5, 17), (2, 33), (65, 3), (9, 257))
MAKE = Callable[..., torch.Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _indices(make: MAKE, count: int, size: int) -> torch.Tensor:
    return make((count,), "bits", torch.int64).remainder(size)


def _mask(make: MAKE, shape: Sequence[int]) -> torch.Tensor:
    return make(shape, dtype=torch.bool)


def _index_grid(make: MAKE, shape: Sequence[int], size: int) -> torch.Tensor:
    return make(shape, "bits", torch.int64).remainder(size)


def _permutation(make: MAKE, size: int) -> torch.Tensor:
    return make((size,), "bits", torch.int64).argsort()


MOVEMENT: dict[str, Callable[[MAKE, tuple[int, ...]], Arguments]] = {
    "flip": lambda make, s: ((make(s, "mixed"), [0, 1]), {}),
    "roll": lambda make, s: ((make(s, "mixed"), [1, -2], [0, 1]), {}),
    "repeat": lambda make, s: ((make(s, "mixed"), [2, 3]), {}),
    "tril": lambda make, s: ((make(s, "mixed"), -1), {}),
    "triu": lambda make, s: ((make(s, "mixed"), 2), {}),
    "stack": lambda make, s: (([make(s, "mixed"), make(s, "mixed")], 1), {}),
    "cat": lambda make, s: (([make(s, "mixed"), make((2, s[1]), "mixed"), make((0, s[1]))], 0), {}),
    "constant_pad_nd": lambda make, s: ((make(s, "mixed"), [1, 2, 0, 1], 3), {}),
    "index_select": lambda make, s: ((make(s, "mixed"), 0, _indices(make, 11, s[0])), {}),
    "gather": lambda make, s: ((make(s, "mixed"), 1, _index_grid(make, (s[0], 9), s[1])), {}),
    "take": lambda make, s: ((make(s, "mixed"), _index_grid(make, (3, 5), s[0] * s[1])), {}),
    "index.Tensor": lambda make, s: ((make(s, "mixed"), [_indices(make, 9, s[0]), _indices(make, 9, s[1])]), {}),
    "masked_select": lambda make, s: ((make(s, "mixed"), _mask(make, s)), {}),
    "masked_fill_.Scalar": lambda make, s: ((make(s, "mixed"), _mask(make, s), 1), {}),
    "masked_scatter_": lambda make, s: ((make(s, "mixed"), _mask(make, s), make(s)), {}),
    "where.self": lambda make, s: ((_mask(make, s), make(s, "mixed"), make((1, s[1]), "mixed")), {}),
    "index_copy": lambda make, s: ((make(s, "mixed"), 0, _permutation(make, s[0]), make(s, "mixed")), {}),
    "index_fill_.int_Scalar": lambda make, s: ((make(s, "mixed"), 1, _indices(make, 4, s[1]), 1), {}),
    "scatter.src": lambda make, s: (
        (make(s, "mixed"), 0, _permutation(make, s[0]).unsqueeze(1).expand(s), make(s, "mixed")),
        {},
    ),
    "scatter.value": lambda make, s: ((make(s, "mixed"), 1, _index_grid(make, (s[0], 3), s[1]), 1), {}),
    "index_put_": lambda make, s: ((make(s, "mixed"), [_permutation(make, s[0])], make(s, "mixed")), {}),
    "nonzero": lambda make, s: ((make(s, "mixed"),), {}),
    "fill_.Scalar": lambda make, s: ((make(s), 3), {}),
    "zero_": lambda make, s: ((make(s),), {}),
    "eq.Tensor": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "ne.Scalar": lambda make, s: ((make(s, "mixed"), 0), {}),
    "logical_not": lambda make, s: ((make(s, "mixed"),), {}),
    "logical_and": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "logical_or": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "logical_xor": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "any.dim": lambda make, s: ((make(s, "mixed"), 1), {}),
    "all.dim": lambda make, s: ((make(s, "mixed"), 0), {}),
}

# Ties and NaN are frequent: "special" repeats few values.
SELECTION: dict[str, Callable[[MAKE, tuple[int, ...]], Arguments]] = {
    "sort": lambda make, s: ((make(s, "special"), 1, True), {}),
    "sort.stable": lambda make, s: ((make(s, "special"),), {"stable": True, "dim": 0, "descending": True}),
    "argsort": lambda make, s: ((make(s, "mixed"), 0), {}),
    "topk": lambda make, s: ((make(s, "special"), (s[1] + 1) // 2, 1, False), {}),
    "kthvalue": lambda make, s: ((make(s, "special"), (s[1] + 1) // 2), {}),
    "median.dim": lambda make, s: ((make(s, "special"), 1), {}),
    "max.dim": lambda make, s: ((make(s, "special"), 1), {}),
    "min.dim": lambda make, s: ((make(s, "special"), 0), {}),
    "argmax": lambda make, s: ((make(s, "special"), 0), {}),
    "argmin": lambda make, s: ((make(s, "special"), 1), {}),
    "amax": lambda make, s: ((make(s, "special"), [0]), {}),
    "amin": lambda make, s: ((make(s, "special"), [1]), {}),
    "aminmax": lambda make, s: ((make(s, "special"),), {"dim": 1}),
    "cummax": lambda make, s: ((make(s, "special"), 1), {}),
    "cummin": lambda make, s: ((make(s, "special"), 0), {}),
    "lt.Tensor": lambda make, s: ((make(s, "special"), make(s, "mixed")), {}),
    "ge.Scalar": lambda make, s: ((make(s, "special"), 1), {}),
    "threshold": lambda make, s: ((make(s, "special"), 0, 1), {}),
    "searchsorted.Tensor": lambda make, s: ((make(s, "normal").sort(-1).values, make(s, "normal")), {}),
    "isin.Tensor_Tensor": lambda make, s: ((make(s, "mixed"), make((9,), "mixed")), {}),
    "unique_consecutive": lambda make, s: ((make(s, "normal"), True, True), {}),
    "_unique2": lambda make, s: ((make(s, "normal"), True, True, True), {}),
}

SUMS: dict[str, Callable[[MAKE, tuple[int, ...]], Arguments]] = {
    "index_add": lambda make, s: ((make(s), 0, _indices(make, 40, s[0]), make((40, s[1]))), {}),
    "scatter_add": lambda make, s: ((make(s), 0, _index_grid(make, (40, s[1]), s[0]), make((40, s[1]))), {}),
    "scatter_reduce.two": lambda make, s: ((make(s), 1, _index_grid(make, (s[0], 40), s[1]), make((s[0], 40)), "sum"), {}),
    "cumsum": lambda make, s: ((make(s), 1), {}),
    "cumprod": lambda make, s: ((make(s), 1), {}),
    "_index_put_impl_": lambda make, s: ((make(s), [_indices(make, 40, s[0])], make((40, s[1])), True), {}),
}

INTEGER_PAIRS = (
    "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "gcd", "lcm", "remainder.Tensor", "fmod.Tensor",
)  # fmt: skip


def _nonzero_divisor(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    divisor = make(shape, "bits")
    return (make(shape, "bits"), torch.where(divisor == 0, torch.ones_like(divisor), divisor)), {}


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for name, build in MOVEMENT.items():
        add(f"aten::{name}", Rows(build, SHAPES), EVERY)
    for name, build in SELECTION.items():
        add(f"aten::{name}", Rows(build, SHAPES), NUMBERS)
    for name, build in SUMS.items():
        add(f"aten::{name}", Rows(build, SHAPES), (*EXACT_FLOATS, *INTEGERS))
    for name in INTEGER_PAIRS:
        add(f"aten::{name}", Rows(_nonzero_divisor, SHAPES), INTEGERS)
    add("aten::floor_divide", Rows(_nonzero_divisor, SHAPES), (*EXACT_FLOATS, *INTEGERS))
    add("aten::bitwise_not", Pointwise(), (*INTEGERS, torch.bool))
