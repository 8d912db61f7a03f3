"""Random fills beside the host's own ops: densecore / cpu, measured in turn."""

from __future__ import annotations

import torch
from timing import Case, main

SIZES = (1000, 98_304, 786_432)  # the last two: activations of the block-64 GPT and of its attention
FILLS = {
    "bernoulli_": lambda x: x.bernoulli_(0.8),
    "uniform_": lambda x: x.uniform_(-1, 1),
    "normal_": lambda x: x.normal_(0, 0.02),
    "exponential_": lambda x: x.exponential_(),
    "random_": lambda x: x.random_(),
}


def fill(name: str, size: int) -> Case:
    def build(device: str):
        x = torch.empty(size, device=device)
        return lambda: FILLS[name](x)

    return Case(f"{name} {size}", build)


def dropout(size: int) -> Case:
    def build(device: str):
        x = torch.ones(size, device=device)
        return lambda: torch.nn.functional.dropout(x, 0.2)

    return Case(f"dropout {size}", build)


def multinomial(size: int) -> Case:
    def build(device: str):
        weights = torch.rand(1, size).to(device)
        return lambda: torch.multinomial(weights, 1)

    return Case(f"multinomial 1 of {size}", build)


CASES = [fill(name, size) for name in FILLS for size in SIZES]
CASES += [dropout(size) for size in SIZES] + [multinomial(size) for size in (65, 50304)]

if __name__ == "__main__":
    main("random fills", CASES)
