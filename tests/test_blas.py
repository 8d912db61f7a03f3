"""Matrix products: against the reference wheel (marked oracle), Accelerate's model, torch's CPU op for errors, and across hosts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hosts import assert_same_on_every_host

from torch_densecore.certify import Call, compare
from torch_densecore.oracle.accelerate import AccelerateModel, BlasCall

DEVICE = "densecore"
THREADS = (1, 2, 3, 4, 6, 8, 10, 12)
SPECIAL = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-40, -1e-45, 3e38, -3e38])
FACTORS = ((1, 1), (0, 1), (1, 0.5), (0.7, 0.3), (0, -2.0), (-1, 1), (2, 0), (1e-50, 1))  # beta, alpha; the last is 0 as a float

# Rows, columns, k: empty, one, register tiles of every level and their neighbours, both sides of the small-shape switch (3072) and of
# torch's own loops (400), and k blocks of 512.
SHAPES = [
    (0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 1, 2), (1, 5, 3), (5, 1, 3), (3, 3, 3), (2, 5, 6), (5, 5, 64), (4, 4, 25), (7, 7, 8),
    (10, 10, 4), (3, 7, 19), (14, 14, 14), (15, 15, 14), (16, 12, 16), (13, 17, 15), (16, 16, 16), (17, 33, 9), (28, 32, 14), (29, 31, 33),
    (1, 65, 64), (65, 1, 64), (64, 65, 32), (33, 15, 130), (1, 1, 4000), (2, 1, 2000), (9, 14, 511), (14, 31, 512), (15, 33, 513),
    (6, 40, 1100),
]  # fmt: skip
QUICK = [SHAPES[i] for i in (2, 3, 7, 8, 9, 11, 14, 18, 21, 23, 24, 30)]


def matrix(rows: int, columns: int, layout: str, generator: torch.Generator, batch: tuple[int, ...] = ()) -> torch.Tensor:
    """A matrix, or batch of them, in one of `LAYOUTS`."""
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


LAYOUTS = ("rows", "columns", "row slice", "column slice", "steps", "one row", "one column")


def make_special(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The same tensor with a few zeros, infinities, NaN and subnormals in its storage."""
    flat = torch.empty(0).set_(tensor.untyped_storage())
    if flat.numel():
        at = torch.randint(0, flat.numel(), (1 + flat.numel() // 20,), generator=generator)
        flat[at] = SPECIAL[torch.randint(0, len(SPECIAL), at.shape, generator=generator)]
    return tensor


class Cases:
    """Makes the calls of one operator: every shape with some of the layouts, factors and values, by a fixed seed."""

    def __init__(self, op: str, shapes: list[tuple[int, int, int]], each: int) -> None:
        self.op, self.shapes, self.each = op, shapes, each

    def __iter__(self) -> Iterator[Call]:
        build: Callable[..., Call] = getattr(self, "_" + self.op.removeprefix("aten::").replace(".", "_"))
        for index, (shape, repeat) in enumerate(itertools.product(self.shapes, range(self.each))):
            self.generator = torch.Generator().manual_seed(index)
            self.random = random.Random(f"{self.op}{shape}{repeat}")
            self.special = repeat % 4 == 3
            call = build(*shape)
            yield Call(call.args, call.kwargs, self.random.choice(THREADS))

    def matrix(self, rows: int, columns: int, batch: tuple[int, ...] = ()) -> torch.Tensor:
        made = matrix(rows, columns, self.random.choice(LAYOUTS), self.generator, batch)
        return make_special(made, self.generator) if self.special else made

    def vector(self, size: int) -> torch.Tensor:
        made = self.random.choice(
            (
                torch.randn(size, generator=self.generator), torch.randn(size * 2, generator=self.generator)[::2],
                torch.randn(1, generator=self.generator).expand(size),
            )
        )  # fmt: skip
        return make_special(made, self.generator) if self.special else made

    def writable(self, rows: int, columns: int, batch: tuple[int, ...] = ()) -> torch.Tensor:
        return matrix(rows, columns, self.random.choice(LAYOUTS[:5]), self.generator, batch)

    def factors(self) -> dict[str, float]:
        return dict(zip(("beta", "alpha"), self.random.choice(FACTORS)))

    def addend(self, *sizes: int) -> torch.Tensor:
        """A tensor that expands to `sizes`."""
        kept = [size if self.random.random() < 0.7 else 1 for size in sizes[self.random.randrange(len(sizes) + 1) :]]
        made = torch.randn(kept, generator=self.generator)
        return make_special(made, self.generator) if self.special else made

    def _mm(self, m: int, n: int, k: int) -> Call:
        return Call((self.matrix(m, k), self.matrix(k, n)), {})

    def _mm_out(self, m: int, n: int, k: int) -> Call:
        return Call((self.matrix(m, k), self.matrix(k, n)), {"out": self.writable(m, n)})

    def _addmm(self, m: int, n: int, k: int) -> Call:
        return Call((self.addend(m, n), self.matrix(m, k), self.matrix(k, n)), self.factors())

    def _addmm_(self, m: int, n: int, k: int) -> Call:
        return Call((self.writable(m, n), self.matrix(m, k), self.matrix(k, n)), self.factors())

    def _addmm_out(self, m: int, n: int, k: int) -> Call:
        call = self._addmm(m, n, k)
        return Call(call.args, {**call.kwargs, "out": self.writable(m, n)})

    def _bmm(self, m: int, n: int, k: int) -> Call:
        batch = (self.random.choice((1, 2, 5)),)
        return Call((self.matrix(m, k, batch), self.matrix(k, n, batch)), {})

    def _bmm_out(self, m: int, n: int, k: int) -> Call:
        call = self._bmm(m, n, k)
        return Call(call.args, {"out": self.writable(m, n, (call.args[0].size(0),))})

    def _baddbmm(self, m: int, n: int, k: int) -> Call:
        batch1, batch2 = self._bmm(m, n, k).args
        return Call((self.addend(batch1.size(0), m, n), batch1, batch2), self.factors())

    def _baddbmm_(self, m: int, n: int, k: int) -> Call:
        batch1, batch2 = self._bmm(m, n, k).args
        return Call((self.writable(m, n, (batch1.size(0),)), batch1, batch2), self.factors())

    def _baddbmm_out(self, m: int, n: int, k: int) -> Call:
        call = self._baddbmm(m, n, k)
        return Call(call.args, {**call.kwargs, "out": self.writable(m, n, (call.args[1].size(0),))})

    def _addbmm(self, m: int, n: int, k: int) -> Call:
        return Call((self.addend(m, n), *self._bmm(m, n, k).args), self.factors())

    def _addbmm_(self, m: int, n: int, k: int) -> Call:
        return Call((self.writable(m, n), *self._bmm(m, n, k).args), self.factors())

    def _mv(self, m: int, n: int, k: int) -> Call:
        return Call((self.matrix(m * n, k), self.vector(k)), {})

    def _addmv(self, m: int, n: int, k: int) -> Call:
        return Call((self.addend(m * n) if m * n else torch.empty(0), self.matrix(m * n, k), self.vector(k)), self.factors())

    def _addmv_(self, m: int, n: int, k: int) -> Call:
        result = torch.randn(m * n * 2, generator=self.generator)[:: self.random.choice((1, 2))][: m * n]
        return Call((result, self.matrix(m * n, k), self.vector(k)), self.factors())

    def _dot(self, m: int, n: int, k: int) -> Call:
        return Call((self.vector(m * k), self.vector(m * k)), {})

    _vdot = _dot

    def _addr(self, m: int, n: int, k: int) -> Call:
        return Call((self.addend(m, k), self.vector(m), self.vector(k)), self.factors())

    def _addr_(self, m: int, n: int, k: int) -> Call:
        return Call((self.writable(m, k), self.vector(m), self.vector(k)), self.factors())


OPS = [
    f"aten::{name}"
    for name in (
        "mm", "mm.out", "addmm", "addmm_", "addmm.out", "bmm", "bmm.out", "baddbmm", "baddbmm_", "baddbmm.out", "addbmm", "addbmm_", "mv",
        "addmv", "addmv_", "dot", "vdot", "addr", "addr_",
    )
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_bits_of_the_reference(op: str) -> None:
    compare(op, Cases(op, QUICK, 4)).check()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_bits_of_the_reference_complete(op: str) -> None:
    compare(op, Cases(op, SHAPES, 40)).check()
