"""Reductions beside the host's own ops: densecore / cpu, measured in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from timing import Case, main


def case(name: str, shape: Sequence[int], call: Callable[[torch.Tensor], object]) -> Case:
    def build(device: str):
        torch.manual_seed(0)
        x = torch.randn(*shape).to(device)
        return lambda: call(x)

    return Case(f"{name} {list(shape)}", build)


def foreach_norm(device: str) -> Callable[[], object]:
    """The gradients of a GPT of 6 layers, width 384, block 256."""
    torch.manual_seed(0)
    layer = [(384,), (1152, 384), (384, 384), (384,), (1536, 384), (384, 1536)]
    tensors = [torch.randn(*s).to(device) for s in [(65, 384), (256, 384), *layer * 6, (384,)]]
    return lambda: torch._foreach_norm(tensors, 2.0)


BIAS_GRADIENTS = [(768, 128), (768, 384), (768, 512), (2048, 384), (2048, 1536)]
MATRIX = (768, 384)
norm = torch.linalg.vector_norm

CASES = [case("sum(0)", shape, lambda x: x.sum(0, keepdim=True)) for shape in (*BIAS_GRADIENTS, (12, 64, 128))]
CASES += [case("sum(1)", (2048, 384), lambda x: x.sum(1))]
CASES += [case("sum", (n,), torch.sum) for n in (1000, 100_000, 1 << 20)]
CASES += [case("mean", (2,), torch.mean), case("mean(-1)", MATRIX, lambda x: x.mean(-1))]
CASES += [case("norm", (28,), norm), case("norm(-1)", MATRIX, lambda x: norm(x, dim=-1))]
CASES += [case("norm(0)", MATRIX, lambda x: norm(x, dim=0))]
CASES += [Case("_foreach_norm, GPT 6 x 384", foreach_norm)]
CASES += [case("var(0)", MATRIX, lambda x: x.var(0)), case("var(1)", MATRIX, lambda x: x.var(1))]
CASES += [case("var", (1 << 18,), torch.var)]
CASES += [case("amax(-1)", MATRIX, lambda x: x.amax(-1)), case("prod(0)", MATRIX, lambda x: x.prod(0))]
CASES += [case("max", (1 << 18,), torch.max), case("cumsum(-1)", MATRIX, lambda x: x.cumsum(-1))]

if __name__ == "__main__":
    main("reductions", CASES)
