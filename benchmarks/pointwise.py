"""Pointwise arithmetic, sorting and indexing beside the host's own ops: densecore / cpu, measured in turn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from timing import Case, main

SIZES = (16, 49_152, 1 << 20)  # overhead, one weight of the block-64 GPT, memory speed
CALLS: dict[str, tuple[int, Callable[..., torch.Tensor]]] = {
    "add": (2, lambda a, b: a + b),
    "add_ number": (1, lambda a: a.add_(1e-8)),
    "add alpha": (2, lambda a, b: torch.add(a, b, alpha=0.3)),
    "mul": (2, lambda a, b: a * b),
    "mul_ number": (1, lambda a: a.mul_(0.999)),
    "div": (2, lambda a, b: a / b),
    "addcmul_": (3, lambda a, b, c: a.addcmul_(b, c, value=1e-3)),
    "addcdiv_": (3, lambda a, b, c: a.addcdiv_(b, c, value=1e-9)),
    "lerp_": (2, lambda a, b: a.lerp_(b, 0.1)),
    "maximum": (2, torch.maximum),
    "clamp": (1, lambda a: a.clamp(-0.5, 0.5)),
    "relu": (1, torch.relu),
    "to int64": (1, lambda a: a.to(torch.int64)),
}


def pointwise(name: str, size: int) -> Case:
    count, call = CALLS[name]

    def build(device: str):
        torch.manual_seed(0)
        operands = [torch.rand(size).add(0.5).to(device) for _ in range(count)]
        return lambda: call(*operands)

    return Case(f"{name} {size}", build)


def of(name: str, call: Callable[..., object], *operands: torch.Tensor) -> Case:
    def build(device: str):
        moved = [x.to(device) for x in operands]
        return lambda: call(*moved)

    return Case(name, build)


torch.manual_seed(0)
CASES = [pointwise(name, size) for name in CALLS for size in SIZES]
CASES += [
    of("topk 200 of 50304", lambda x: torch.topk(x, 200), torch.rand(1, 50304)),
    of("topk 20 of 65", lambda x: torch.topk(x, 20), torch.rand(1, 65)),
    of("sort 50304", torch.sort, torch.rand(1, 50304)),
    of(
        "embedding gradient",
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 65, -1, False),
        torch.rand(768, 128),
        torch.randint(0, 65, (768,)),
    ),
    of(
        "embedding gradient, 50304 rows",
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 50304, -1, False),
        torch.rand(2048, 384),
        torch.randint(0, 50304, (2048,)),
    ),
]

if __name__ == "__main__":
    main("pointwise arithmetic, sorting, indexing", CASES)
