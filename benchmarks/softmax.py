"""Softmax, log-softmax and the loss beside the host's own ops: densecore / cpu, measured in turn."""

from __future__ import annotations

import torch
from timing import Case, main
from torch.nn import functional as F

ATTENTION, LOGITS = [(48, 64, 64), (48, 256, 256)], [(256, 65), (768, 65), (2048, 65), (64, 50257)]


def forward(name: str, shape: tuple[int, ...], dim: int) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        x = torch.randn(shape).to(device)
        rest = () if name == "_safe_softmax" else (False,)
        return lambda: getattr(torch.ops.aten, name)(x, dim, *rest)

    return Case(f"{name} {list(shape)} dim {dim}", build)


def backward(name: str, shape: tuple[int, ...], dim: int) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        output, grad = getattr(torch, name)(torch.randn(shape), dim).to(device), torch.randn(shape).to(device)
        return lambda: getattr(torch.ops.aten, f"_{name}_backward_data")(grad, output, dim, torch.float32)

    return Case(f"_{name}_backward_data {list(shape)} dim {dim}", build)


def cross_entropy(shape: tuple[int, int]) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        logits, target = torch.randn(shape).to(device), torch.randint(0, shape[1], shape[:1]).to(device)
        return lambda: F.cross_entropy(logits, target)

    return Case(f"cross_entropy {list(shape)}", build)


CASES = [forward(name, shape, -1) for name in ("_softmax", "_safe_softmax") for shape in ATTENTION]
CASES += [backward("softmax", shape, -1) for shape in ATTENTION]
CASES += [forward("_log_softmax", shape, -1) for shape in LOGITS] + [backward("log_softmax", shape, -1) for shape in LOGITS]
CASES += [forward("_softmax", (16, 64, 130), 1), backward("softmax", (16, 64, 130), 1), forward("_log_softmax", (16, 64, 130), 1)]
CASES += [cross_entropy(shape) for shape in LOGITS]

if __name__ == "__main__":
    main("softmax and loss", CASES)
