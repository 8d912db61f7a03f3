"""Requests to BLAS: which there are to ask, and how torch is made to ask them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from .rules import Sizes

SIDES = (1, 2, 3, 4, 8, 16, 33, 64)
DEPTHS = (2, 4, 5, 8, 17, 33, 64, 193, 385, 512)
LARGE_SIDES, LARGE_DEPTHS = (128, 320), (64, 385, 1000)  # few, since a large product is slow to ask
DEEP = (769, 1500, 3072)
OTHER_SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 33, 40, 65, 130)  # of random products
OTHER_DEPTHS = (2, 3, 5, 6, 11, 16, 31, 64, 128, 191, 192, 193, 195, 301, 384, 385, 700)


@dataclass(frozen=True)
class Shape:
    """A request as BLAS sees it (column major): C (m, n) = op(A) (m, k) * op(B) (k, n)."""

    routine: str
    trans: str  # of A, then of B for gemm
    m: int
    n: int
    k: int

    @property
    def sizes(self) -> Sizes:
        return Sizes(self.m, self.n, self.k)

    def reaches(self, least: dict[str, int]) -> bool:
        """Whether the sizes, "product" among them, are as large."""
        return all(getattr(self.sizes, name) >= size for name, size in least.items())


def shapes(sides: Iterable[int] = SIDES, depths: Iterable[int] = DEPTHS) -> Iterator[Shape]:
    """A grid: small sides and depths, where libraries change kernels.

    None for gemm with m = 1: torch asks for the transpose, which has n = 1.
    """
    sides = tuple(sides)
    for k in depths:
        yield Shape("dot", "*", 1, 1, k)
        for m in sides:
            if m > 1:
                yield Shape("gemv", "N", m, 1, k)
                yield Shape("gemv", "T", m, 1, k)
        for trans in ("NN", "TN", "NT"):
            for m, n in itertools.product(sides, sides):
                if m > 1:
                    yield Shape("gemm", trans, m, n, k)


def large_shapes() -> Iterator[Shape]:
    for trans in ("NN", "TN", "NT"):
        for m, n in ((16, 320), (320, 16), (128, 128), (320, 320), (320, 64)):
            for k in LARGE_DEPTHS:
                yield Shape("gemm", trans, m, n, k)
        for k in DEEP:
            yield Shape("gemm", trans, 33, 64, k)


def other_shapes(side: int, depth: int, depths: Iterable[int] = OTHER_DEPTHS) -> Iterator[Shape]:
    sides = [size for size in OTHER_SIDES if size <= side]
    depths = [size for size in depths if size <= depth]
    for k in depths:
        yield Shape("dot", "*", 1, 1, k)
        for m, trans in itertools.product(sides, "NT"):
            yield Shape("gemv", trans, m, 1, k)
    for trans in ("NN", "TN", "NT"):
        for (i, m), (j, n) in itertools.product(enumerate(sides), enumerate(sides)):
            for k in depths[(i + j) % 2 :: 2] if m > 1 else ():
                yield Shape("gemm", trans, m, n, k)


def compute_all(shape: Shape, rows: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The (len(rows), n) products of rows and column, as many rows in a request as it has."""
    parts = [rows[begin : begin + shape.m] for begin in range(0, len(rows), shape.m)]
    return np.concatenate([compute(shape, np.resize(part, (shape.m, shape.k)), column)[: len(part)] for part in parts])


def compute(shape: Shape, rows: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The (m, n) result when op(A) has these rows and every column of op(B) is `column`."""
    right = torch.from_numpy(column)
    return multiply(shape, torch.from_numpy(rows), right.expand(shape.n, shape.k))


def multiply(shape: Shape, a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    """a (m, k) times the transpose of b (n, k)."""
    left, right = operands(shape, a, b)
    if shape.routine == "dot":
        return left.dot(right).reshape(1, 1).numpy()
    return torch.mv(left, right)[:, None].numpy() if shape.routine == "gemv" else torch.mm(left, right).t().numpy()


def operands(shape: Shape, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What torch multiplies so that BLAS is asked for the shape; torch is row major."""
    if shape.routine == "dot":
        return a[0], b[0]
    if shape.routine == "gemv":
        # row-major (m, k) is column-major T; a transposed (k, m) is N, also with a single row
        return a.contiguous() if shape.trans == "T" else a.t().reshape(-1).as_strided(a.shape, (1, shape.m)), b[0]
    # torch's second operand is BLAS's A: stored (k, m), or (m, k) and transposed
    second = a.contiguous().t() if shape.trans[0] == "T" else a.t().contiguous()
    return b.contiguous() if shape.trans[1] == "N" else b.t().contiguous().t(), second


def fusing_examples(k: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows, column) that tell where a product is fused into its sum: -(1 + 2^-11) + (1 + 2^-12)^2 is then 2^-24 and not 0."""
    # one of these elements shares an accumulator with the first
    places = sorted({at for at in (1, 2, 4, 8, 16, 32, 64, 128, k // 2, k - 1) if 0 < at < k})
    rows, column = np.zeros((len(places), k), np.float32), np.zeros(k, np.float32)
    rows[:, 0], column[0] = -(1 + 2.0**-11), 1
    rows[range(len(places)), places] = column[places] = 1 + 2.0**-12
    return rows, column
