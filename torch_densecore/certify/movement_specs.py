"""Inputs of operators that move, copy or make elements, most of them served by the host's kernel (`exact` tier).

Index operators get both ends of the range and repeated indices; values are of every kind, NaN and both zeros among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .families import Rows, Several
from .inputs import COMPLEX, EVERY, NUMBERS

MAKE = Callable[..., torch.Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Build = Callable[[MAKE, tuple[int, ...]], Arguments]
SHAPES = ((1, 1), (3, 5), (4, 8), (5, 17), (2, 33), (65, 3), (9, 257), (70, 521))  # the last one exceeds a parallel chunk
IMAGES = ((1, 4, 2, 3), (2, 4, 6, 4), (1, 8, 10, 16), (3, 4, 33, 12))
CONTIGUOUS = ("contiguous",)


def indices(make: MAKE, shape: Sequence[int], size: int) -> torch.Tensor:
    """Indices into a dimension of this size."""
    return make(shape, "bits", torch.int64).remainder(size)


def _mask(make: MAKE, shape: Sequence[int]) -> torch.Tensor:
    return make(shape, dtype=torch.bool)


def _permutation(make: MAKE, size: int) -> torch.Tensor:
    return make((size,), "bits", torch.int64).argsort(stable=True)


def _with(*rest: Any, **options: Any) -> Build:
    """A tensor, then these arguments."""
    return lambda make, s: ((make(s, "mixed"), *rest), options)


MOVES: dict[str, Build] = {
    "flip": _with([0, 1]),
    "roll": _with([1, -2], [0, 1]),
    "repeat": _with([2, 3]),
    "tril": _with(-1),
    "triu": _with(2),
    "view": lambda make, s: ((make(s, "mixed").contiguous(), [s[0] * s[1]]), {}),
    "_reshape_alias": lambda make, s: ((make(s, "mixed").contiguous(), [s[1], s[0]], [1, s[1]]), {}),
    "as_strided": lambda make, s: ((make(s, "mixed").contiguous(), [s[1]], [1], s[0] - 1), {}),
    "unfold": _with(1, 1, 1),
    "narrow_copy": _with(1, 0, 1),
    "constant_pad_nd": _with([1, 2, 0, 1], 3),
    "fill_.Scalar": _with(3),
    "zero_": _with(),
    "stack": lambda make, s: (([make(s, "mixed"), make(s, "mixed")], 1), {}),
    "_stack": lambda make, s: (([make(s, "mixed"), make(s, "mixed")], 0), {}),
    "cat": lambda make, s: (([make(s, "mixed"), make((2, s[1]), "mixed"), make((0, s[1]))], 0), {}),
    "_chunk_cat": lambda make, s: (([make(s, "mixed"), make((s[0] + 1, 2), "mixed")], 0, 3), {}),
    "split_with_sizes_copy": lambda make, s: ((make(s, "mixed"), [1, s[1] - 1], 1), {}),
    "fill_.Tensor": lambda make, s: ((make(s, "mixed"), make((), "mixed")), {}),
    "index_select": lambda make, s: ((make(s, "mixed"), 0, indices(make, (11,), s[0])), {}),
    "gather": lambda make, s: ((make(s, "mixed"), 1, indices(make, (s[0], 9), s[1])), {}),
    "take": lambda make, s: ((make(s, "mixed"), indices(make, (3, 5), s[0] * s[1])), {}),
    "index.Tensor": lambda make, s: ((make(s, "mixed"), [indices(make, (9,), s[0]), indices(make, (9,), s[1])]), {}),
    "masked_select": lambda make, s: ((make(s, "mixed"), _mask(make, s)), {}),
    "masked_fill.Scalar": lambda make, s: ((make(s, "mixed"), _mask(make, s), 1), {}),
    "masked_fill_.Scalar": lambda make, s: ((make(s, "mixed"), _mask(make, s), 1), {}),
    "masked_fill_.Tensor": lambda make, s: ((make(s, "mixed"), _mask(make, s), make((), "mixed")), {}),
    "masked_scatter_": lambda make, s: ((make(s, "mixed"), _mask(make, s), make(s)), {}),
    "where.self": lambda make, s: ((_mask(make, s), make(s, "mixed"), make((1, s[1]), "mixed")), {}),
    "index_copy": lambda make, s: ((make(s, "mixed"), 0, _permutation(make, s[0]), make(s, "mixed")), {}),
    "index_fill_.int_Scalar": lambda make, s: ((make(s, "mixed"), 1, indices(make, (4,), s[1]), 1), {}),
    "index_fill_.int_Tensor": lambda make, s: ((make(s, "mixed"), 1, indices(make, (4,), s[1]), make((), "mixed")), {}),
    "scatter.src": lambda make, s: (
        (make(s, "mixed"), 0, _permutation(make, s[0]).unsqueeze(1).expand(s), make(s, "mixed")),
        {},
    ),
    "scatter.value": lambda make, s: ((make(s, "mixed"), 1, indices(make, (s[0], 3), s[1]), 1), {}),
    "index_put_": lambda make, s: ((make(s, "mixed"), [_permutation(make, s[0])], make(s, "mixed")), {}),
    "_local_scalar_dense": lambda make, s: ((make((), "mixed"),), {}),
    "nonzero": _with(),
    "nonzero_static": _with(size=7),
    "equal": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "is_set_to": lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}),
    "set_.source_Tensor": lambda make, s: ((make(s, "mixed"), make((3,), "mixed")), {}),
    "_foreach_copy_": lambda make, s: (([make(s), make((3,))], [make(s, "mixed"), make((3,), "mixed")]), {}),
    "_foreach_zero_": lambda make, s: (([make(s), make((3,))],), {}),
}

IMAGE_MOVES: dict[str, Build] = {
    "channel_shuffle": _with(2),
    "native_channel_shuffle": _with(4),
    "pixel_shuffle": _with(2),
    "pixel_unshuffle": lambda make, s: ((make((s[0], s[1], 2 * s[2], 2 * s[3]), "mixed"), 2), {}),
    "im2col": _with([2, 3], [1, 1], [1, 1], [1, 2]),
    "reflection_pad2d": _with([1, 2, 0, 1]),
    "replication_pad2d": _with([1, 2, 0, 1]),
    "upsample_nearest2d": lambda make, s: ((make(s, "mixed"), [2 * s[2] + 1, s[3] + 3]), {}),
}


def _line(make: MAKE, shape: tuple[int, ...]) -> torch.Tensor:
    """An image's width alone."""
    return make((*shape[:2], shape[3]), "mixed")


def _volume(make: MAKE, shape: tuple[int, ...]) -> torch.Tensor:
    """An image's height and width beside a depth of 3."""
    return make((*shape[:2], 3, *shape[2:]), "mixed")


for _rank, _input in ((1, _line), (3, _volume)):
    _pads, _sizes = [1, 2, 0, 1, 1, 0][: 2 * _rank], [7, 9, 11][:_rank]
    for _pad in ("reflection_pad", "replication_pad"):
        IMAGE_MOVES[f"{_pad}{_rank}d"] = lambda make, s, x=_input, pads=_pads: ((x(make, s), pads), {})
    IMAGE_MOVES[f"upsample_nearest{_rank}d"] = lambda make, s, x=_input, sizes=_sizes: ((x(make, s), sizes), {})


def _copy(source: torch.dtype, kind: str) -> Build:
    def build(make: MAKE, shape: tuple[int, ...]) -> Arguments:
        target = make(shape)
        half = source in (torch.float16, torch.bfloat16)
        to_integer = not (target.is_floating_point() or target.is_complex() or target.dtype == torch.bool)
        # the device refuses half precision to integers: what the reference makes of large values is not settled
        return (target, make(shape, kind, torch.float32 if half and to_integer else source)), {}

    return build


def _conversions(add: Callable[..., None]) -> None:
    """copy_ from every dtype to every other; floats beyond an integer's range among them."""
    kinds = [(dtype, kind) for dtype in (*EVERY, *COMPLEX) for kind in ("mixed", "wide", "bits")[: 1 if dtype.is_complex else 3]]
    copies = [Rows(_copy(dtype, kind), ((3, 5), (70, 521))) for dtype, kind in kinds]
    add("aten::copy_", Several(copies), (*EVERY, *COMPLEX))


def _factories(add: Callable[..., None]) -> None:
    def ranges(*words: Sequence[float]) -> Several:
        return Several([Rows(lambda make, s, w=w: (w, {"out": make((0,))}), ((1,), (2,)), layouts=CONTIGUOUS) for w in words])

    whole = ((0, 10, 1), (5, -4, -2), (0, 110, 3), (3, 100, 7), (0, 140000, 1), (4, 100000, 3))
    real = ((0.1, 5.3, 0.7), (-2.5, 1e4, 0.3), (3.0, -700.0, -0.01), (0.0, 1.0, 1e-5), (1e30, 3e30, 7e25))
    for name in ("arange.start_out", "range.out"):
        add(f"aten::{name}", ranges(*whole, *real), NUMBERS)
    add("aten::eye.out", Rows(lambda make, s: ((s[0],), {"out": make((0,))}), SHAPES, layouts=CONTIGUOUS), EVERY)
    add("aten::eye.m_out", Rows(lambda make, s: (s, {"out": make((0,))}), SHAPES, layouts=CONTIGUOUS), EVERY)
    for name in ("tril_indices", "triu_indices"):
        add(f"aten::{name}", Rows(lambda make, s: ((*s, 1), {}), SHAPES, layouts=CONTIGUOUS), (torch.int64,))
    repeats = lambda make, s: ((indices(make, (s[0],), 5).to(make((), "bits").dtype),), {})  # noqa: E731
    add("aten::repeat_interleave.Tensor", Rows(repeats, SHAPES), (torch.int64, torch.int32))


def _complex(add: Callable[..., None]) -> None:
    for name in ("_conj_physical", "conj_physical"):
        add(f"aten::{name}", Rows(_with(), SHAPES), COMPLEX)
    add("aten::view_as_real", Rows(_with(), SHAPES), COMPLEX)
    pairs = lambda make, s: ((make((*s, 2), "mixed").contiguous(),), {})  # noqa: E731
    add("aten::view_as_complex", Rows(pairs, SHAPES), (torch.float32, torch.float64))
    add("aten::complex", Rows(lambda make, s: ((make(s, "mixed"), make(s, "mixed")), {}), SHAPES), (torch.float32, torch.float64))


def declare(add: Callable[..., None]) -> None:
    """Calls add(op, family, dtypes) for each operator."""
    for name, build in MOVES.items():
        add(f"aten::{name}", Rows(build, SHAPES), (*EVERY, *COMPLEX))
    for name, build in IMAGE_MOVES.items():
        add(f"aten::{name}", Rows(build, IMAGES), (*EVERY, *COMPLEX))
    for group in (_conversions, _factories, _complex):
        group(add)
