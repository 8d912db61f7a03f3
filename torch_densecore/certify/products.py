"""Inputs of matrix products: the layouts, sizes, factors and values at which torch or BLAS change their way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch

from .comparison import Call
from .families import Case, Sweep

THREADS = (1, 2, 3, 4, 6, 8, 10, 12)
SPECIAL = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -1e-45, 3e38, -3e38])
# beta, alpha; the last beta is not zero, but as a float it is
FACTORS = ((1, 1), (0, 1), (1, 0.5), (0.7, 0.3), (0, -2.0), (-1, 1), (2, 0), (1e-50, 1))
WRITABLE = ("rows", "columns", "row slice", "column slice", "steps")
LAYOUTS = (*WRITABLE, "one row", "one column")

# Rows, columns, k: empty, one, register tiles of every level and their neighbours, both sides of the small-shape switch
# (m * n * k = 3072) and of torch's own loops (400), and k blocks of 512.
SHAPES = (
    (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 1, 2), (1, 5, 3), (5, 1, 3), (3, 3, 3), (2, 5, 6), (5, 5, 64),
    (4, 4, 25), (7, 7, 8), (10, 10, 4), (3, 7, 19), (14, 14, 14), (15, 15, 14), (16, 12, 16), (13, 17, 15), (16, 16, 16),
    (17, 33, 9), (28, 32, 14), (29, 31, 33), (1, 65, 64), (65, 1, 64), (64, 65, 32), (33, 15, 130), (1, 1, 4000),
    (2, 1, 2000), (9, 14, 511), (14, 31, 512), (15, 33, 513), (6, 40, 1100),
)  # fmt: skip
QUICK = (
    (3, 4, 0), (1, 1, 1), (3, 3, 3), (2, 5, 6), (5, 5, 64), (7, 7, 8), (15, 15, 14), (17, 33, 9), (29, 31, 33), (65, 1, 64),
    (15, 33, 513),
)  # fmt: skip


def matrix(rows: int, columns: int, layout: str, generator: torch.Generator, batch: Sequence[int] = ()) -> torch.Tensor:
    """A normal matrix, or a batch of them, in one of `LAYOUTS`."""
    if layout == "rows":
        return torch.randn(*batch, rows, columns, generator=generator)
    if layout == "columns":
        return torch.randn(*batch, columns, rows, generator=generator).mT
    if layout == "row slice":
        return torch.randn(*batch, rows, columns + 3, generator=generator)[..., 1 : columns + 1]
    if layout == "column slice":
        return torch.randn(*batch, columns, rows + 2, generator=generator)[..., :rows].mT
    if layout == "steps":
        return torch.randn(*batch, rows * 2, columns * 2, generator=generator)[..., ::2, ::2]
    if layout == "one row":
        return torch.randn(*batch, 1, columns, generator=generator).expand(*batch, rows, columns)
    if layout == "one column":
        return torch.randn(*batch, rows, 1, generator=generator).expand(*batch, rows, columns)
    raise ValueError(layout)


class Maker:
    """Makes the tensors of one call from a seed. special: with zeros, infinities, NaN and subnormals among the values."""

    def __init__(self, seed: int, dtype: torch.dtype, special: bool) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.random = random.Random(seed)
        self.dtype, self.special = dtype, special

    def _finished(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor in the dtype, with the same strides."""
        flat = torch.empty(0).set_(tensor.untyped_storage())
        if self.special and flat.numel():
            at = torch.randint(0, flat.numel(), (1 + flat.numel() // 20,), generator=self.generator)
            flat[at] = SPECIAL[torch.randint(0, len(SPECIAL), at.shape, generator=self.generator)]
        if not self.dtype.is_floating_point:
            flat = (flat * 1e9).nan_to_num(0, 0, 0).clamp(-9e18, 9e18).to(torch.int64)
        return flat.to(self.dtype).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def matrix(self, rows: int, columns: int, batch: Sequence[int] = ()) -> torch.Tensor:
        """A matrix or batch in any layout."""
        return self._finished(matrix(rows, columns, self.random.choice(LAYOUTS), self.generator, batch))

    def vector(self, size: int) -> torch.Tensor:
        """A vector: contiguous, with a step, or one value expanded."""
        step = self.random.choice((1, 2, 0))
        stored = torch.randn(size * step if step else 1, generator=self.generator)
        return self._finished(stored[::step] if step else stored.expand(size))

    def result(self, sizes: Sequence[int]) -> torch.Tensor:
        """A tensor to write to: every element has its own place."""
        if len(sizes) < 2:
            return self._finished(torch.randn(*sizes, 2, generator=self.generator)[..., 0])
        *batch, rows, columns = sizes
        return self._finished(matrix(rows, columns, self.random.choice(WRITABLE), self.generator, batch))

    def addend(self, *sizes: int) -> torch.Tensor:
        """A tensor that expands to `sizes`."""
        kept = [size if self.random.random() < 0.7 else 1 for size in sizes[self.random.randrange(len(sizes) + 1) :]]
        return self._finished(torch.randn(kept, generator=self.generator))

    def factors(self) -> dict[str, Any]:
        """beta and alpha."""
        factors = dict(zip(("beta", "alpha"), self.random.choice(FACTORS), strict=True))
        return factors if self.dtype.is_floating_point else {name: int(value) for name, value in factors.items()}

    def batch(self) -> tuple[int, ...]:
        """The size of a batch dimension."""
        return (self.random.choice((1, 2, 5)),)


Built = tuple[list[Any], dict[str, Any], tuple[int, ...]]  # arguments, keyword arguments, sizes of the result


def mm(make: Maker, m: int, n: int, k: int) -> Built:
    return [make.matrix(m, k), make.matrix(k, n)], {}, (m, n)


def addmm(make: Maker, m: int, n: int, k: int) -> Built:
    return [make.addend(m, n), make.matrix(m, k), make.matrix(k, n)], make.factors(), (m, n)


def addmm_activation(make: Maker, m: int, n: int, k: int) -> Built:
    operands, factors, sizes = addmm(make, m, n, k)
    return operands, {**factors, "use_gelu": make.random.choice((False, True))}, sizes


def bmm(make: Maker, m: int, n: int, k: int) -> Built:
    batch = make.batch()
    return [make.matrix(m, k, batch), make.matrix(k, n, batch)], {}, (*batch, m, n)


def baddbmm(make: Maker, m: int, n: int, k: int) -> Built:
    operands, _, sizes = bmm(make, m, n, k)
    return [make.addend(*sizes), *operands], make.factors(), sizes


def addbmm(make: Maker, m: int, n: int, k: int) -> Built:
    operands, _, _ = bmm(make, m, n, k)
    return [make.addend(m, n), *operands], make.factors(), (m, n)


def mv(make: Maker, m: int, n: int, k: int) -> Built:
    return [make.matrix(m * n, k), make.vector(k)], {}, (m * n,)


def addmv(make: Maker, m: int, n: int, k: int) -> Built:
    addend = make.addend(m * n) if m * n else make.result((0,))
    return [addend, make.matrix(m * n, k), make.vector(k)], make.factors(), (m * n,)


def dot(make: Maker, m: int, n: int, k: int) -> Built:
    return [make.vector(m * k), make.vector(m * k)], {}, ()


def addr(make: Maker, m: int, n: int, k: int) -> Built:
    return [make.addend(m, k), make.vector(m), make.vector(k)], make.factors(), (m, k)


def linear(make: Maker, m: int, n: int, k: int) -> Built:
    x = make.matrix(m, k, make.random.choice(((), (3,), (2, 2))))
    return [x, make.matrix(n, k), make.random.choice((None, make.vector(n)))], {}, (*x.shape[:-1], n)


@dataclass(frozen=True)
class Products:
    """Operators that multiply matrices: every shape, each time with other layouts, factors and threads.

    form: "", "_" (in place) or ".out", which write to tensors of every layout.
    """

    build: Callable[[Maker, int, int, int], Built]
    form: str = ""
    each: int = 40  # calls a shape; a third of them for the other forms and for integers

    def __call__(self, sweep: Sweep) -> Iterator[Case]:
        """All shapes; every fourth call has special values."""
        shapes, each = (QUICK, 4) if sweep.quick else (SHAPES, self.each)
        if self.form or not sweep.dtype.is_floating_point:
            each = max(4, each // 3)
        for shape, repeat in product(shapes, range(each)):
            yield partial(self._build, sweep, shape, repeat)

    def _build(self, sweep: Sweep, shape: tuple[int, int, int], repeat: int) -> Call:
        seed = sweep.seed(shape, repeat) & 0x7FFFFFFF
        make = Maker(seed, sweep.dtype, special=repeat % 4 == 3)
        args, kwargs, sizes = self.build(make, *shape)
        if self.form == "_":
            args[0] = make.result(sizes)
        elif self.form == ".out":
            kwargs = {**kwargs, "out": make.result(sizes)}
        return Call(tuple(args), kwargs, make.random.choice(THREADS))
