"""Unary functions, activations and pow beside the host's own ops: densecore / cpu, measured in turn."""

from __future__ import annotations

from collections.abc import Callable

import torch
from timing import Case, main
from torch.nn import functional as F

SIZE = 1 << 18  # 1 MiB, about one activation of a small GPT
UNARY = (
    "exp exp2 expm1 log log2 log10 log1p tanh sigmoid erf erfc sin cos tan asin acos atan sinh cosh asinh acosh atanh sqrt rsqrt "
    "reciprocal"
).split()


def make(kind: str, count: int) -> list[torch.Tensor]:
    """Tensors in the domain of the function."""
    torch.manual_seed(0)
    tensors = [torch.randn(SIZE) for _ in range(count)]
    ranges: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "real": lambda x: x, "positive": lambda x: x.abs() + 0.1, "inside": torch.tanh, "above one": lambda x: x.abs() + 1,
    }  # fmt: skip
    return [ranges[kind](x) for x in tensors]


def case(name: str, call: Callable[..., torch.Tensor], kind: str = "real", count: int = 1) -> Case:
    def build(device: str):
        tensors = [x.to(device) for x in make(kind, count)]
        return lambda: call(*tensors)

    return Case(name, build)


def domain(name: str) -> str:
    if name in ("asin", "acos", "atanh"):
        return "inside"
    return {"acosh": "above one"}.get(name, "positive" if name.startswith(("log", "sqrt", "rsqrt")) else "real")


CASES = [case(name, getattr(torch, name), domain(name)) for name in UNARY]
CASES += [case(name, getattr(F, name)) for name in ("gelu", "silu", "mish", "softplus", "elu", "logsigmoid", "glu", "softshrink")]
CASES += [case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"))]
BACKWARD = ("gelu_backward", "silu_backward", "mish_backward", "tanh_backward")
CASES += [case(name, getattr(torch.ops.aten, name), count=2) for name in BACKWARD]
CASES += [case("gelu_backward tanh", lambda g, x: torch.ops.aten.gelu_backward(g, x, approximate="tanh"), count=2)]
CASES += [case(f"pow {e}", lambda x, e=e: torch.pow(x, e), "positive") for e in (2, 3, 0.5, -0.5, -1, -2, 1.7)]
CASES += [case("pow", torch.pow, "positive", 2)]

if __name__ == "__main__":
    main(f"unary functions, {SIZE} elements", CASES)
