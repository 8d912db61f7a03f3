"""Flash attention beside the host's own op: densecore / cpu, CPU time, measured in turn."""

from __future__ import annotations

import torch
from timing import Case, main

# batch, heads, length, head size: the two GPT configurations, one long sequence, one generated token
SHAPES = {"block 64": (12, 4, 64, 32), "block 256": (8, 6, 256, 64), "length 1024": (1, 2, 1024, 64), "one token": (1, 6, 1, 64)}


def case(name: str, shape: tuple[int, ...], backward: bool) -> Case:
    batch, heads, length, d = shape

    def build(device: str):
        torch.manual_seed(0)
        q, k, v = (torch.randn(batch, length, heads, d).to(device).transpose(1, 2) for _ in range(3))
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        if not backward:
            return lambda: forward(q, k, v, 0.0, True)
        out, logsumexp = forward(q, k, v, 0.0, True)
        grad = torch.ones_like(out)
        gradient = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        return lambda: gradient(grad, q, k, v, out, logsumexp, 0.0, True)

    return Case(f"{name} {'backward' if backward else 'forward'}", build)


CASES = [case(name, shape, backward) for name, shape in SHAPES.items() for backward in (False, True)]

if __name__ == "__main__":
    main("flash attention, causal", CASES)
