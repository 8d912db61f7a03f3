"""Families of inputs: each turns a dtype into a list of cases at the sizes, strides and values where kernels branch.

A case is a recipe, built only when it runs, so a sweep can be divided among processes and resumed by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import torch

from . import inputs
from .comparison import Call
from .inputs import CHUNK_EDGES, LANE_EDGES, LAYOUTS, THREADS

Case = Callable[[], Call]
Family = Callable[["Sweep"], Iterator[Case]]


@dataclass(frozen=True)
class Sweep:
    """What a family is asked for. quick: only the most telling sizes."""

    op: str
    dtype: torch.dtype
    quick: bool = False

    def seed(self, *parts: object) -> int:
        """A seed that depends on the operator and dtype."""
        return inputs.seed_of(self.op, self.dtype, *parts)

    @property
    def edges(self) -> Sequence[int]:
        """Sizes around vectors and unrolls."""
        return (0, 1, 3, 4, 5, 8, 17, 33, 65) if self.quick else LANE_EDGES

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Sizes and thread counts around parallel chunks, which depend on no dtype: others than float32 get one size."""
        if self.quick:
            return [(inputs.GRAIN + 1, 2), (2 * inputs.GRAIN + 1, 4), (4 * inputs.GRAIN + 3, 3)]
        sizes = CHUNK_EDGES if self.dtype == torch.float32 else (2 * inputs.GRAIN + 1,)
        return list(product(sizes, THREADS))

    @property
    def kinds(self) -> Sequence[str]:
        """Kinds of values."""
        return ("mixed", "wide") if self.quick else ("mixed", "wide", "bits", "special")


@dataclass(frozen=True)
class Several:
    """The cases of several families, one after the other."""

    families: Sequence[Family]

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """All of them."""
        for family in self.families:
            yield from family(sweep)


@dataclass(frozen=True)
class Brief:
    """The quick cases of a family, also in a full sweep: for alternatives that differ from one with all cases by one function."""

    family: Family

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """Only the most telling sizes."""
        return self.family(replace(sweep, quick=True))


@dataclass(frozen=True)
class Pointwise:
    """Elementwise operators. operands: tensor arguments. rest: alternatives for the arguments after them.

    float_rest: more alternatives, for floating dtypes. domain: kind of values per operand, "" for all kinds.
    """

    operands: int = 1
    rest: Sequence[tuple[Sequence[Any], dict[str, Any]]] = (((), {}),)
    domain: str = ""
    broadcast: bool = True
    float_rest: Sequence[tuple[Sequence[Any], dict[str, Any]]] = ()

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """Every edge size with every kind, layouts in one, two and three dimensions, chunks, broadcasting."""
        kinds = (self.domain,) if self.domain else sweep.kinds
        for rest in (*self.rest, *(self.float_rest if sweep.dtype.is_floating_point else ())):
            for size, kind in product(sweep.edges, kinds):
                yield partial(self._build, sweep, [(size,)] * self.operands, kind, "contiguous", rest, None)
            for shape, layout in product(((5, 7), (3, 4, 9), (33, 17)), LAYOUTS):
                yield partial(self._build, sweep, [shape] * self.operands, kinds[0], layout, rest, None)
            for size, threads in sweep.chunks:
                yield partial(self._build, sweep, [(size,)] * self.operands, kinds[0], "contiguous", rest, threads)
            if self.operands > 1 and self.broadcast:
                for shapes in (((7, 5), (5,)), ((4, 1, 6), (4, 3, 1)), ((9,), ()), ((300, 333), (333,))):
                    more = [*shapes, *[shapes[0]] * (self.operands - 2)]
                    yield partial(self._build, sweep, more, kinds[0], "contiguous", rest, None)

    @staticmethod
    def _build(
        sweep: Sweep, shapes: list[tuple[int, ...]], kind: str, layout: str, rest: tuple[Any, dict[str, Any]], threads: int | None
    ) -> Call:
        seeds = (sweep.seed(shapes, kind, layout, index) for index in range(len(shapes)))
        tensors = [inputs.tensor(s, sweep.dtype, seed, kind, layout) for s, seed in zip(shapes, seeds, strict=False)]
        return Call((*tensors, *rest[0]), rest[1], threads)


@dataclass(frozen=True)
class Reduction:
    """Reductions. dims: how the operator takes dimensions: "none" (whole tensor), "int" or "list".

    rest: alternatives for the arguments after dimension and keepdim; before: they come before the dimension. kinds: kinds of
    values beside normal ones, which chunks get too.
    """

    dims: str = "list"
    rest: Sequence[tuple[Sequence[Any], dict[str, Any]]] = (((), {}),)
    keepdim: bool = True
    before: bool = False
    kinds: Sequence[str] = ()

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """One-dimensional edges, rows and columns, three dimensions, strides, chunks."""
        kinds = ("normal", "mixed", *self.kinds) if sweep.quick else ("normal", "wide", "mixed", *self.kinds)
        cascade = () if sweep.quick else (500, 513, 1023, 1024, 1025, 4095, 4097)
        for rest in self.rest:
            for size, kind in product((*sweep.edges, *cascade), kinds):
                yield from self._all_dims(sweep, (size,), kind, "contiguous", rest, None)
            for shape in ((), (3, 5), (5, 64), (64, 5), (17, 33), (130, 9), (4, 3, 7), (2, 0, 3), (9, 260)):
                yield from self._all_dims(sweep, shape, "normal", "contiguous", rest, None)
            for shape, layout in product(((5, 7), (3, 4, 9), (33, 65)), LAYOUTS):
                yield from self._all_dims(sweep, shape, "normal", layout, rest, None)
            for (size, threads), kind in product(sweep.chunks, ("normal", *self.kinds)):
                yield from self._all_dims(sweep, (size,), kind, "contiguous", rest, threads)
                if size % 2:
                    yield from self._all_dims(sweep, (size // 64, 65), kind, "contiguous", rest, threads)

    def _all_dims(
        self, sweep: Sweep, shape: tuple[int, ...], kind: str, layout: str, rest: tuple[Any, dict[str, Any]], threads: int | None
    ) -> Iterator[Case]:
        for dim in self._choices(len(shape)):
            yield partial(self._build, sweep, shape, kind, layout, dim, rest, threads)

    def _choices(self, rank: int) -> list[tuple[Any, ...]]:
        if self.dims == "none":
            return [()]
        single = [(d if self.dims == "int" else [d],) for d in range(rank)]
        if self.dims == "list" and rank != 1:
            single.append((list(range(rank)),))
        return [(*choice, d % 2 == 1) for d, choice in enumerate(single)] if self.keepdim else single

    def _build(
        self, sweep: Sweep, shape: tuple[int, ...], kind: str, layout: str, dim: tuple[Any, ...],
        rest: tuple[Any, dict[str, Any]], threads: int | None,
    ) -> Call:  # fmt: skip
        x = inputs.tensor(shape, sweep.dtype, sweep.seed(shape, kind, layout), kind, layout)
        words = (*rest[0], *dim) if self.before else (*dim, *rest[0])
        return Call((x, *words), rest[1], threads)


# Rows of attention, layer norm and softmax: lane and unroll edges and their neighbours; the last two exceed a parallel chunk.
ROW_SHAPES = (
    (1, 1), (1, 3), (2, 4), (3, 5), (4, 8), (5, 16), (2, 17), (3, 31), (4, 32), (5, 33), (2, 63), (7, 64), (3, 65), (2, 127),
    (2, 128), (2, 129), (1, 255), (9, 256), (2, 384), (2, 768), (3, 1023), (2, 1025), (65, 513), (513, 65),
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """Operators on rows and other shapes given by a builder: `build(make, shape)` returns args and kwargs.

    `make(shape, kind, dtype=None)` gives a tensor.
    """

    build: Callable[[Callable[..., torch.Tensor], tuple[int, ...]], tuple[tuple[Any, ...], dict[str, Any]]]
    shapes: Sequence[tuple[int, ...]]
    quick: Sequence[tuple[int, ...]] = ()
    threads: Sequence[int] = THREADS
    layouts: Sequence[str] = ("contiguous", "transposed", "strided")

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """Every shape with every layout and thread count."""
        shapes = self.quick or self.shapes[:: max(1, len(self.shapes) // 8)] if sweep.quick else self.shapes
        for shape, layout in product(shapes, self.layouts):
            yield partial(self._build, sweep, shape, layout, None)
        for shape, threads in product(shapes[-2:], self.threads):
            yield partial(self._build, sweep, shape, "contiguous", threads)

    def _build(self, sweep: Sweep, shape: tuple[int, ...], layout: str, threads: int | None) -> Call:
        made = 0

        def make(size: Sequence[int], kind: str = "normal", dtype: torch.dtype | None = None) -> torch.Tensor:
            nonlocal made
            made += 1
            used = layout if made == 1 else "contiguous"
            return inputs.tensor(size, dtype or sweep.dtype, sweep.seed(shape, layout, made), kind, used)

        args, kwargs = self.build(make, shape)
        return Call(args, kwargs, threads, seed=sweep.seed(shape) & 0x7FFFFFFF)


# How an exhaustive sweep lays out the patterns. In order: consecutive ones side by side. Strided: every second element of a
# tensor, which the reference's loops take one by one, by scalar code. Beside: one lane in four holds a large number, which sends
# the other three through the path that the reference takes for a group of 4 lanes of which one is large.
IN_ORDER, STRIDED, BESIDE = "in order", "strided", "beside 1000.0"
_NEIGHBOUR = 1000.0


@dataclass(frozen=True)
class Exhaustive:
    """Every bit pattern of a one-operand elementwise operator, in blocks; once for each pass and alternative of `rest`."""

    passes: Sequence[str] = (IN_ORDER,)
    rest: Sequence[tuple[Sequence[Any], dict[str, Any]]] = (((), {}),)
    block: int = field(default=3 << 20)

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """65536 patterns for 16-bit dtypes, 2^32 for 32-bit ones."""
        bits = 8 * sweep.dtype.itemsize
        if bits > 32:
            raise ValueError(f"{sweep.op}: an exhaustive sweep of {sweep.dtype} has 2^{bits} inputs")
        total = 1 << bits
        for how, rest, start in product(self.passes, self.rest, range(0, total, self.block)):
            yield partial(self._build, sweep, how, rest, start, min(self.block, total - start))

    def describe(self) -> list[str]:
        """The passes, each with its arguments: "in order", "strided approximate=tanh"."""
        words = [[*map(str, args), *(f"{name}={value}" for name, value in kwargs.items())] for args, kwargs in self.rest]
        return [" ".join((how, *rest)) for how, rest in product(self.passes, words)]

    def _build(self, sweep: Sweep, how: str, rest: tuple[Any, dict[str, Any]], start: int, count: int) -> Call:
        x = inputs.every_pattern(sweep.dtype, start, count)
        if how == STRIDED:
            x = torch.stack((x, x), 1)[:, 0]
        elif how == BESIDE:
            x = inputs.with_neighbour(x, _NEIGHBOUR, place=start // self.block % 4)
        return Call((x, *rest[0]), rest[1], 1)  # one thread: no chunk border shifts the groups
