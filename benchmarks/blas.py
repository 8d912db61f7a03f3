"""Matrix products beside the host's own BLAS: densecore / cpu, measured in turn.

The shapes are those of GPT training in two configurations (block 64, batch 12, width 128; block 256, batch 8, width 384): each
layer's forward product, the gradient of its input (dX) and of its weight (dW); then squares, attention's batches without the
fused op, and one generated token.
"""

from __future__ import annotations

import torch
from timing import Case, main

VOCABULARY = 65
GPT = {"block 64": (768, 128), "block 256": (2048, 384)}  # rows (batch * block), width


def product(name: str, left: tuple[int, ...], right: tuple[int, ...], turned: str = "") -> Case:
    """left @ right; `turned` names the sides that are stored transposed."""

    def build(device: str):
        torch.manual_seed(0)
        a = torch.randn(left).to(device)
        b = torch.randn(right).to(device)
        a = a.mT.contiguous().mT if "left" in turned else a
        b = b.mT.contiguous().mT if "right" in turned else b
        return lambda: torch.matmul(a, b)

    return Case(name, build)


def layer(config: str, name: str, rows: int, inputs: int, outputs: int) -> list[Case]:
    """The three products of a linear layer."""
    return [
        product(f"{config} {name} forward", (rows, inputs), (inputs, outputs), "right"),
        product(f"{config} {name} dX", (rows, outputs), (outputs, inputs)),
        product(f"{config} {name} dW", (outputs, rows), (rows, inputs), "left"),
    ]


def cases() -> list[Case]:
    found = []
    for config, (rows, width) in GPT.items():
        for name, inputs, outputs in (
            ("qkv", width, 3 * width), ("proj", width, width), ("fc", width, 4 * width), ("fc proj", 4 * width, width),
            ("head", width, VOCABULARY),
        ):  # fmt: skip
            found += layer(config, name, rows, inputs, outputs)
    found += [product(f"square {n}", (n, n), (n, n)) for n in (512, 1024)]
    return [
        *found,
        product("scores, 48 heads", (48, 64, 32), (48, 32, 64), "right"),
        product("values, 48 heads", (48, 64, 64), (48, 64, 32)),
        product("one token qkv", (1, 384), (384, 1152), "right"),
        product("one token fc", (1, 384), (384, 1536), "right"),
        product("one token fc proj", (1, 1536), (1536, 384), "right"),
        product("small 8 x 8", (8, 8), (8, 8)),
        product("one token head", (1, 384), (384, VOCABULARY), "right"),
        product("matrix and vector", (1152, 384), (384,)),
        product("dot", (4096,), (4096,)),
    ]


CASES = cases()

if __name__ == "__main__":
    main("matrix products", CASES)
