"""Summation orders as numpy code: ATen's cascade sum, lane-wise reductions, Welford moments, dot products.

Every function takes float32 arrays, adds along the last axis and rounds after every step, as the kernels do. Orders
follow ATen's SumKernel.cpp, vec/functional_base.h and moments_utils.h (torch 2.4 to 2.13).
"""

from __future__ import annotations

import numpy as np

from .arith import F32, Array, multiply_add

LEVELS = 4  # of the cascade
ILP = 4  # rows summed side by side
MOMENTS_CHUNK = 16  # vectors per Welford chunk


def sequential(x: Array) -> Array:
    """One accumulator, left to right."""
    acc = np.zeros(x.shape[:-1], F32)
    for i in range(x.shape[-1]):
        acc = acc + x[..., i]
    return acc


def pairwise(x: Array) -> Array:
    """Halves added recursively."""
    n = x.shape[-1]
    if n == 0:
        return np.zeros(x.shape[:-1], F32)
    if n == 1:
        return x[..., 0]
    half = (n + 1) // 2
    return pairwise(x[..., :half]) + pairwise(x[..., half:])


def _multi_row(x: Array) -> Array:
    """Cascade over axis -2 of (..., size, rows): partial sums of 16 or more are added level by level."""
    size = x.shape[-2]
    power = max(4, max(size - 1, 1).bit_length() // LEVELS if size > 1 else 0)
    step = 1 << power
    acc = [np.zeros((*x.shape[:-2], x.shape[-1]), F32) for _ in range(LEVELS)]
    i = 0
    while i + step <= size:
        for _ in range(step):
            acc[0] = acc[0] + x[..., i, :]
            i += 1
        for level in range(1, LEVELS):
            acc[level] = acc[level] + acc[level - 1]
            acc[level - 1] = np.zeros_like(acc[level - 1])
            if i & ((step - 1) << (level * power)):
                break
    for j in range(i, size):
        acc[0] = acc[0] + x[..., j, :]
    for level in range(1, LEVELS):
        acc[0] = acc[0] + acc[level]
    return acc[0]


def _row_sum(x: Array) -> Array:
    """Sum over axis -2 of (..., size, lanes): four interleaved cascades, then their sums in order."""
    size, lanes = x.shape[-2:]
    whole = size // ILP
    rows = x[..., : whole * ILP, :].reshape(*x.shape[:-2], whole, ILP * lanes)
    partial = _multi_row(rows).reshape(*x.shape[:-2], ILP, lanes)
    first = partial[..., 0, :]
    for i in range(whole * ILP, size):
        first = first + x[..., i, :]
    for k in range(1, ILP):
        first = first + partial[..., k, :]
    return first


def cascade(x: Array, lanes: int) -> Array:
    """ATen's sum of contiguous rows: vectors of `lanes` elements; the tail first, then the lanes in order."""
    n = x.shape[-1]
    vectors = n // lanes
    if vectors == 0:  # shorter than one vector: the scalar path
        return _row_sum(x[..., None])[..., 0]
    sums = _row_sum(x[..., : vectors * lanes].reshape(*x.shape[:-1], vectors, lanes))
    total = np.zeros(x.shape[:-1], F32)
    for i in range(vectors * lanes, n):
        total = total + x[..., i]
    for k in range(lanes):
        total = total + sums[..., k]
    return total


def cascade_chunks(x: Array, lanes: int, threads: int, grain: int = 32768) -> Array:
    """ATen's sum of one long row by several threads: a partial sum per thread, then their sum."""
    n = x.shape[-1]
    if threads == 1 or n < grain:
        return cascade(x, lanes)
    used = min(threads, -(-n // grain))
    chunk = -(-n // used)
    parts = [cascade(x[..., i : i + chunk], lanes) for i in range(0, n, chunk)]
    parts += [np.zeros_like(parts[0])] * (threads - len(parts))
    return cascade(np.stack(parts, -1), lanes)


def outer(x: Array, lanes: int) -> Array:
    """ATen's sum over axis 0 of (size, columns): whole blocks are plain cascades, the other columns interleaved ones.

    A block is 4 vectors; where there is not even one vector of columns, it is 4 columns.
    """
    columns = x.shape[1]
    block = ILP * lanes if columns >= lanes else ILP
    whole = columns // block * block
    parts = [_multi_row(x[:, :whole])] if whole else []
    if columns - whole:
        parts.append(_row_sum(x[:, whole:]))
    return np.concatenate(parts) if parts else np.zeros(0, F32)


def lane_reduce(x: Array, lanes: int, final: str) -> Array:
    """vec::reduce_all with +: one accumulator per lane, a partial last vector, lanes added by `final`.

    final: "halves" (x86 and NEON shuffles), "adjacent" (NEON faddp) or "order".
    """
    n = x.shape[-1]
    if n < lanes:
        acc = x
        return combine(acc, "order") if final == "order" else sequential_from_first(acc)
    acc = x[..., :lanes]
    i = lanes
    while i + lanes <= n:
        acc = acc + x[..., i : i + lanes]
        i += lanes
    if i < n:
        acc = np.concatenate([acc[..., : n - i] + x[..., i:], acc[..., n - i :]], -1)
    return combine(acc, final)


def lane_products(
    x: Array, y: Array, lanes: int, fused: bool, final: str = "halves", fused_tail: bool | None = None
) -> Array:
    """vec::map2_reduce_all of x * y with +: the products of the first vector are rounded, later ones may be fused.

    fused_tail: the same for the last, partial vector.
    """
    n = x.shape[-1]
    if n < lanes:
        return lane_reduce((x * y).astype(F32), lanes, final)
    acc = (x[..., :lanes] * y[..., :lanes]).astype(F32)
    for i in range(lanes, n, lanes):
        count = min(lanes, n - i)
        step = fused if count == lanes or fused_tail is None else fused_tail
        part = multiply_add(x[..., i : i + count], y[..., i : i + count], acc[..., :count], step)
        acc = np.concatenate([part, acc[..., count:]], -1)
    return combine(acc, final)


def sequential_from_first(x: Array) -> Array:
    """Left to right, starting with the first element rather than 0."""
    acc = x[..., 0]
    for i in range(1, x.shape[-1]):
        acc = acc + x[..., i]
    return acc


def combine(acc: Array, final: str) -> Array:
    """Adds the lanes of an accumulator."""
    while final != "order" and acc.shape[-1] > 1:
        half = acc.shape[-1] // 2
        acc = acc[..., :half] + acc[..., half:] if final == "halves" else acc[..., 0::2] + acc[..., 1::2]
    return acc[..., 0] if final != "order" else sequential_from_first(acc)


def dot(
    a: Array,
    b: Array,
    *,
    lanes: int = 1,
    accumulators: int = 1,
    block: int = 0,
    halves: bool = False,
    fused: bool = True,
    fused_tail: bool | None = None,
    start: Array | None = None,
    continues: bool = True,
    final: str = "adjacent",
) -> Array:
    """Dot products along the last axis, as BLAS kernels form them.

    `accumulators` vectors of `lanes` elements take turns; their sums are added in pairs, then the lanes by `final`, then
    the tail (`fused_tail`: otherwise than `fused`). With `block`, k is cut into blocks whose sums are added in order (with
    `halves` of k // 2 elements if there would be less than two: MKL). `start` is what the sum begins with: a single chain
    goes on from it when `continues`, else the first block's sum is added to it.
    """
    k = a.shape[-1]
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    total = np.zeros(shape, F32) if start is None else np.broadcast_to(start, shape).astype(F32)
    tail = fused if fused_tail is None else fused_tail
    for begin, end in blocks_of(k, block, halves):
        x, y = a[..., begin:end], b[..., begin:end]
        if lanes * accumulators > 1:
            total = total + _lane_dot(x, y, shape, lanes, accumulators, fused, tail, final)
        elif begin == 0 and continues:
            total = _chain(x, y, total, fused)
        else:
            total = total + _chain(x, y, np.zeros(shape, F32), fused)
    return total.astype(F32)


def blocks_of(k: int, block: int, halves: bool) -> list[tuple[int, int]]:
    """(begin, end) of the blocks along k."""
    step = k // 2 if halves and block < k < 2 * block else block or max(k, 1)
    return [(begin, min(begin + step, k)) for begin in range(0, k, step)]


def _chain(x: Array, y: Array, total: Array, fused: bool) -> Array:
    for i in range(x.shape[-1]):
        total = multiply_add(x[..., i], y[..., i], total, fused)
    return total


def _lane_dot(
    x: Array, y: Array, shape: tuple, lanes: int, accumulators: int, fused: bool, fused_tail: bool, final: str
) -> Array:
    n = x.shape[-1]
    width = lanes * accumulators
    acc = np.zeros((*shape, accumulators, lanes), F32)
    i = 0
    while i + width <= n:
        u = x[..., i : i + width].reshape(*x.shape[:-1], accumulators, lanes)
        v = y[..., i : i + width].reshape(*y.shape[:-1], accumulators, lanes)
        acc = multiply_add(u, v, acc, fused)
        i += width
    turn = 0
    while i + lanes <= n:  # fewer vectors than accumulators are left
        part = multiply_add(x[..., i : i + lanes], y[..., i : i + lanes], acc[..., turn, :], fused)
        acc = np.concatenate([acc[..., :turn, :], part[..., None, :], acc[..., turn + 1 :, :]], -2)
        i, turn = i + lanes, turn + 1
    while acc.shape[-2] > 1:
        acc = acc[..., 0::2, :] + acc[..., 1::2, :]
    total = combine(acc[..., 0, :], final)
    for j in range(i, n):
        total = multiply_add(x[..., j], y[..., j], total, fused_tail)
    return total


def moments(
    x: Array, lanes: int, fused: bool, fused_tail: bool | None = None, merge: str = "2.13"
) -> tuple[Array, Array]:
    """(mean, variance) along the last axis by ATen's RowwiseMoments: Welford in lanes, chunks merged as a cascade.

    merge: the formula that merges chunks, that of torch "2.13" or of "2.4".
    """
    merge_vectors = _merge_vectors if merge == "2.13" else _merge_vectors_2_4
    n_all = x.shape[-1]
    n = n_all // lanes
    chunks = -(-n // MOMENTS_CHUNK)
    depth = max(chunks - 1, 0).bit_length() if chunks > 1 else 0
    shape = (*x.shape[:-1], lanes)
    stack = [[0, np.zeros(shape, F32), np.zeros(shape, F32)] for _ in range(max(depth, 1))]
    for i in range(chunks):
        m1, m2 = np.zeros(shape, F32), np.zeros(shape, F32)
        count = min(MOMENTS_CHUNK, n - i * MOMENTS_CHUNK)
        for j in range(count):
            at = (i * MOMENTS_CHUNK + j) * lanes
            v = x[..., at : at + lanes]
            delta = v - m1
            m1 = multiply_add(delta, F32(1) / F32(j + 1), m1, fused)
            m2 = multiply_add(delta, v - m1, m2, fused)
        merge_vectors(stack[0], count, m1, m2, fused)
        mask = i + 1
        for level in range(1, depth):
            if mask & 1:
                break
            merge_vectors(stack[level], *stack[level - 1], fused)
            stack[level - 1] = [0, np.zeros(shape, F32), np.zeros(shape, F32)]
            mask >>= 1
    for level in range(1, depth):
        merge_vectors(stack[0], *stack[level], fused)
    total = [0, np.zeros(x.shape[:-1], F32), np.zeros(x.shape[:-1], F32)]
    for i in range(n * lanes, n_all):
        delta = x[..., i] - total[1]
        total[0] += 1
        total[1] = total[1] + delta / F32(total[0])
        total[2] = multiply_add(delta, x[..., i] - total[1], total[2], fused if fused_tail is None else fused_tail)
    for lane in range(lanes):
        _merge_lanes(total, n, stack[0][1][..., lane], stack[0][2][..., lane], fused)
    return total[1], total[2] / F32(n_all)


def _merge_vectors(into: list, count: int, m1: Array, m2: Array, fused: bool) -> None:
    """Chan's formula for two parts, as AddMomentsVec computes it; `into` is [count, mean, squared deviations]."""
    n = into[0] + count
    if n == 0:
        return
    delta = m1 - into[1]
    step = F32(count) / F32(n) * delta
    into[2] = multiply_add(delta * F32(into[0]), step, into[2] + m2, fused)
    into[0], into[1] = n, into[1] + step


def _merge_vectors_2_4(into: list, count: int, m1: Array, m2: Array, fused: bool) -> None:
    """The same with the operations in another order, as releases before 2.13 have it."""
    n = into[0] + count
    if n == 0:
        return
    c = F32(count) / F32(n)
    delta = m1 - into[1]
    into[2] = into[2] + multiply_add(delta * delta * c, F32(into[0]), m2, fused)
    into[0], into[1] = n, multiply_add(c, delta, into[1], fused)


def _merge_lanes(into: list, count: int, m1: Array, m2: Array, fused: bool) -> None:
    """The same formula as AddMoments computes it."""
    n = into[0] + count
    if n == 0:
        return
    c = F32(count) / F32(n)
    delta = m1 - into[1]
    mean = multiply_add(c, delta, into[1], fused)
    into[2] = into[2] + multiply_add(delta * delta * c, F32(into[0]), m2, fused)
    into[0], into[1] = n, mean
