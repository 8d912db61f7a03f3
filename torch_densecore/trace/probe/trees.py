"""Summation trees by masking, after FPRev (Xie, Gao and Xue, 2024).

A sum of ones in which element i is a huge M and element j is -M loses exactly the ones that meet M before it is
cancelled: all leaves of the smallest subtree that holds both i and j. So `n - result` is that subtree's size, and the
sizes for all pairs determine the tree. Products by 1 are exact, so fused multiply-adds change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..digest import bytes_digest

HUGE = np.float32(2.0**100)  # takes the ones in even when the operator accumulates in float64
Sums = Callable[[np.ndarray], np.ndarray]  # rows of summands (p, n) -> their sums (p,)


def pairs_of(n: int) -> list[tuple[int, int]]:
    """Pairs whose subtree sizes tell orders apart: all of them up to 32 elements, a choice above."""
    if n <= 12:
        return [(i, j) for i in range(n) for j in range(i + 1, n)]
    steps = (1, 2, 3, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512)
    chosen = {(0, j) for j in range(1, min(n, 18))} | {(0, j) for j in range(1, n, max(1, n // 12))}
    for step in steps:
        for start in (1, n - step - 1):
            if 0 <= start and start + step < n:
                chosen.add((start, start + step))
    return sorted(chosen | {(0, n - 1), (n - 2, n - 1)})


def masked(n: int, pairs: list[tuple[int, int]], huge: float = HUGE) -> np.ndarray:
    """Summands (len(pairs), n) that reveal the subtree of each pair."""
    rows = np.ones((len(pairs), n), np.float32)
    index = np.arange(len(pairs))
    rows[index, [i for i, _ in pairs]] = huge
    rows[index, [j for _, j in pairs]] = -huge
    return rows


def sizes(sums: Sums, n: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Leaves of the smallest subtree that holds each pair; -1 where the result is no count (not a plain sum)."""
    results = np.asarray(sums(masked(n, pairs)), np.float64).reshape(len(pairs), -1)[:, 0]
    counts = n - results
    whole = np.rint(counts)  # a mean times n is a whole number but for its own rounding
    valid = np.isfinite(counts) & (abs(counts - whole) < 0.01) & (whole >= 2) & (whole <= n)
    return np.where(valid, whole, -1).astype(np.int64)


def signature(sums: Sums, n: int) -> str:
    """Digest of the subtree sizes: equal for equal trees (of the chosen pairs)."""
    return signature_of(sizes(sums, n, pairs_of(n)))


def signature_of(found: np.ndarray) -> str:
    return bytes_digest(np.asarray(found, np.int64).tobytes())[:16]


def tree(sums: Sums, n: int) -> str:
    """The tree in words, such as ((0 2) (1 3)): in which pairs the elements are added. At most n * depth probes."""
    if n == 1:
        return "0"
    text = _build(sums, n, list(range(n)))
    return text if text is not None else "not a binary tree of plain additions"


def _build(sums: Sums, n: int, leaves: list[int]) -> str | None:
    first, rest = leaves[0], leaves[1:]
    if not rest:
        return str(first)
    found = sizes(sums, n, [(first, j) for j in rest])
    if (found < 0).any():
        return None
    text = str(first)
    for size in sorted(set(found.tolist())):
        part = _build(sums, n, [j for j, s in zip(rest, found, strict=True) if s == size])
        if part is None:
            return None
        text = f"({text} {part})"
    return text
