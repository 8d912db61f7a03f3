"""Inputs of operators that select, compare, count or add elements by index, and of integer arithmetic.

Their results hang on special values: NaN among the sorted, equal keys, the two zeros.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .families import Pointwise, Rows, Several
from .inputs import COMPLEX, EVERY, INTEGERS, NUMBERS
from .movement_specs import MAKE, SHAPES, Arguments, Build, indices

EXACT_FLOATS = (torch.float32, torch.float64)

TRUTHS: dict[str, Build] = {
    "logical_and": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "logical_or": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "logical_xor": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "any": lambda make, s: ((make(s, "zeros"),), {}),
    "all": lambda make, s: ((make(s, "mixed"),), {}),
    "any.dim": lambda make, s: ((make(s, "mixed"), 1), {}),
    "all.dim": lambda make, s: ((make(s, "mixed"), 0), {}),
    "any.dims": lambda make, s: ((make(s, "mixed"), [0, 1]), {}),
    "all.dims": lambda make, s: ((make(s, "mixed"), [1]), {}),
    "count_nonzero.dim_IntList": lambda make, s: ((make(s, "mixed"), [1]), {}),
}

# Keys that are alike, both zeros and NaN: each operator gets every kind.
KEYS = ("special", "few", "zeros", "normal")
ORDERED: dict[str, Callable[[torch.Tensor], Arguments]] = {
    "sort": lambda x: ((x, 1, True), {}),
    "argsort": lambda x: ((x, 0), {}),
    "sort.stable": lambda x: ((x,), {"stable": False, "dim": 1}),
    "topk": lambda x: ((x, min(x.shape[1], 5)), {}),
    "kthvalue": lambda x: ((x, (x.shape[1] + 1) // 2), {}),
    "median": lambda x: ((x,), {}),
    "nanmedian": lambda x: ((x,), {}),
    "median.dim": lambda x: ((x, 1), {}),
    "nanmedian.dim": lambda x: ((x, 0), {}),
    "cummax": lambda x: ((x, 1), {}),
    "cummin": lambda x: ((x, 0), {}),
    "_cummax_helper": lambda x: ((x, torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.int64), 1), {}),
    "_cummin_helper": lambda x: ((x, torch.zeros_like(x), torch.zeros(x.shape, dtype=torch.int64), 0), {}),
    "aminmax": lambda x: ((x,), {}),
    "unique_consecutive": lambda x: ((x, True, True), {}),
    "_unique": lambda x: ((x, True, True), {}),
    "_unique2": lambda x: ((x, True, True, True), {}),
}
# The other direction, dimension or stability.
ALSO: dict[str, tuple[Callable[[torch.Tensor], Arguments], ...]] = {
    "sort.stable": (
        lambda x: ((x,), {"stable": True, "dim": 0, "descending": True}),
        lambda x: ((x,), {"stable": None, "dim": 0}),
    ),
    "topk": (lambda x: ((x, (x.shape[1] + 1) // 2, 1, False), {}),),
    "aminmax": (lambda x: ((x,), {"dim": 1}), lambda x: ((x,), {"dim": 0, "keepdim": True})),
}
SEARCHES: dict[str, Build] = {
    "searchsorted.Tensor": lambda make, s: ((make(s, "normal").sort(-1).values, make(s, "normal")), {}),
    "bucketize.Tensor": lambda make, s: ((make(s, "normal"), make((9,), "normal").sort().values), {"right": True}),
    "isin.Tensor_Tensor": lambda make, s: ((make(s, "mixed"), make((9,), "mixed")), {}),
    "isin.Tensor_Scalar": lambda make, s: ((make(s, "mixed"), 2), {}),
    "isin.Scalar_Tensor": lambda make, s: ((2, make(s, "mixed")), {}),
    "unique_dim": lambda make, s: ((make((2 * s[0], 1), "normal"), 0, True, True, True), {}),
    "unique_dim_consecutive": lambda make, s: ((make((2 * s[0], 1), "normal"), 0, True, True), {}),
    "bincount": lambda make, s: ((make((s[1],), "positive").abs(),), {"minlength": 5}),
}

SUMS: dict[str, Build] = {
    "index_add": lambda make, s: ((make(s), 0, indices(make, (40,), s[0]), make((40, s[1]))), {}),
    "scatter_add": lambda make, s: ((make(s), 0, indices(make, (40, s[1]), s[0]), make((40, s[1]))), {}),
    "scatter_reduce.two": lambda make, s: ((make(s), 1, indices(make, (s[0], 40), s[1]), make((s[0], 40)), "sum"), {}),
    "trace": lambda make, s: ((make(s),), {}),
    "_foreach_add_.Scalar": lambda make, s: (([make(s), make((3,))], 3), {}),
    "_foreach_mul_.Scalar": lambda make, s: (([make(s), make((3,))], 3), {}),
}

INTEGER_PAIRS = (
    "bitwise_and.Tensor", "bitwise_or.Tensor", "bitwise_xor.Tensor", "gcd", "lcm", "remainder.Tensor", "fmod.Tensor",
)  # fmt: skip
SHIFTS = ("bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor", "__lshift__.Tensor", "__rshift__.Tensor")


def _order(add: Callable[..., None]) -> None:
    for name, build in ORDERED.items():
        builds = (build, *ALSO.get(name, ()))
        families = [Rows(lambda make, s, b=b, k=kind: b(make(s, k)), SHAPES) for b in builds for kind in KEYS]
        add(f"aten::{name}", Several(families), NUMBERS)


def _nonzero_divisor(make: MAKE, shape: tuple[int, ...]) -> Arguments:
    divisor = make(shape, "bits")
    return (make(shape, "bits"), torch.where(divisor == 0, torch.ones_like(divisor), divisor)), {}


def _rounded(mode: str | None) -> Build:
    return lambda make, s: (_nonzero_divisor(make, s)[0], {"rounding_mode": mode})


def _integer_arithmetic(add: Callable[..., None]) -> None:
    for name in INTEGER_PAIRS:
        add(f"aten::{name}", Rows(_nonzero_divisor, SHAPES), INTEGERS)
    add("aten::floor_divide", Rows(_nonzero_divisor, SHAPES), NUMBERS)
    add("aten::div.Tensor_mode", Several([Rows(_rounded(mode), SHAPES) for mode in ("floor", "trunc")]), NUMBERS)
    add("aten::remainder.Scalar_Tensor", Rows(lambda make, s: ((7, _nonzero_divisor(make, s)[0][1]), {}), SHAPES), INTEGERS)
    for name in SHIFTS:
        add(f"aten::{name}", Rows(lambda make, s: ((make(s, "bits"), make(s, "positive").abs().clamp(0, 7)), {}), SHAPES), INTEGERS)
        if name.startswith("__"):
            scalar = f"aten::{name.replace('Tensor', 'Scalar')}"
            add(scalar, Rows(lambda make, s: ((make(s, "bits"), 3), {}), SHAPES), INTEGERS)
    add("aten::bitwise_not", Pointwise(), (*INTEGERS, torch.bool))


def _accumulation(add: Callable[..., None]) -> None:
    for name, build in SUMS.items():
        add(f"aten::{name}", Rows(build, SHAPES), (*EXACT_FLOATS, *INTEGERS))

    def put(accumulate: bool) -> Build:
        """With accumulation the indices repeat; without, they may not: which one wins is not defined."""

        def build(make: MAKE, s: tuple[int, ...]) -> Arguments:
            rows = indices(make, (40,), s[0]) if accumulate else make((s[0],), "bits", torch.int64).argsort(stable=True)
            return (make(s), [rows], make((len(rows), s[1])), accumulate), {}

        return build

    puts = Several([Rows(put(accumulate), SHAPES) for accumulate in (True, False)])
    add("aten::_index_put_impl_", puts, (*EXACT_FLOATS, *INTEGERS))


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for name, build in TRUTHS.items():
        add(f"aten::{name}", Rows(build, SHAPES), (*EVERY, *COMPLEX))
    for name, build in SEARCHES.items():
        add(f"aten::{name}", Rows(build, SHAPES), NUMBERS)
    for group in (_order, _integer_arithmetic, _accumulation):
        group(add)
