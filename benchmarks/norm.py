"""Layer normalization beside the host's own op: densecore / cpu, measured in turn."""

from __future__ import annotations

import torch
from timing import Case, main

SHAPES = [(1, 128), (256, 32), (768, 128), (2048, 384), (512, 768), (300, 65)]  # rows, width: GPTs of the benchmarks and odd sizes


def forward(rows: int, width: int, bias: bool) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        x, weight = torch.randn(rows, width).to(device), torch.randn(width).to(device)
        return lambda: torch.native_layer_norm(x, [width], weight, weight if bias else None, 1e-5)

    return Case(f"native_layer_norm [{rows}, {width}]{' bias' if bias else ''}", build)


def backward(rows: int, width: int, bias: bool) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        x, grad, weight = torch.randn(rows, width), torch.randn(rows, width), torch.randn(width)
        _, mean, rstd = torch.native_layer_norm(x, [width], weight, None, 1e-5)
        x, grad, weight, mean, rstd = (t.to(device) for t in (x, grad, weight, mean, rstd))
        second = weight if bias else None
        op = torch.ops.aten.native_layer_norm_backward
        return lambda: op(grad, x, [width], mean, rstd, weight, second, [True, True, bias])

    return Case(f"native_layer_norm_backward [{rows}, {width}]{' bias' if bias else ''}", build)


CASES = [make(rows, width, bias) for make in (forward, backward) for rows, width in SHAPES for bias in (False, True)]

if __name__ == "__main__":
    main("layer normalization", CASES)
