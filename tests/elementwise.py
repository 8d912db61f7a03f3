"""Cases shared by test_unary.py and test_activation.py: how an elementwise op is called and compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from torch_densecore.certify import Call, compare, inputs

GOLDEN = Path(__file__).parent / "elementwise_golden.json"
F32 = torch.float32

# vector pairs of 8 and wider registers, one below and above a chunk of vml ops (2048), of others (32768) and of gelu (16384)
SIZES = (0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 2047, 2049, 6151)
LARGE = (16385, 16390, 32767, 32769, 65541, 131077)
# A shape whose rows are not whole vectors, so that strided and expanded operands reach every path.
SHAPES = ((3, 5), (17, 12), (7, 1001), (5, 3, 18))


def operands(count: int, shape: tuple[int, ...], seed: int, kind: str, layout: str = "contiguous") -> list[torch.Tensor]:
    return [inputs.tensor(shape, F32, seed + 31 * i, kind, layout) for i in range(count)]


def quick_calls(count: int, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """Small sizes with special values, every memory layout, and one size that the profile's threads divide."""
    for size in SIZES:
        yield Call((*operands(count, (size,), size, "mixed"), *rest), kwargs, threads=1)
    for kind in ("special", "bits", "wide"):
        yield Call((*operands(count, (1009,), 5, kind), *rest), kwargs)
    for shape in SHAPES:
        for layout in inputs.LAYOUTS:
            yield Call((*operands(count, shape, 3, "mixed", layout), *rest), kwargs)
    yield Call((*operands(count, (65541,), 7, "mixed"), *rest), kwargs, threads=3)


def sweep_calls(count: int, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """All thread counts on both sides of every chunk edge."""
    yield from quick_calls(count, rest, kwargs)
    for size in LARGE:
        for threads in inputs.THREADS:
            yield Call((*operands(count, (size,), size + threads, "mixed"), *rest), kwargs, threads=threads)


def assert_matches_the_reference(op: str, calls: Iterator[Call]) -> None:
    assert compare(op, calls).check().calls > 20


def one_nan(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, with all NaNs alike: their sign and payload are not part of the contract."""
    cpu = tensor.cpu()
    return torch.where(cpu.isnan(), torch.tensor(float("nan")), cpu).contiguous()


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(one_nan(tensor).numpy().tobytes()).hexdigest()[:16]


def golden_args(count: int) -> list[list[torch.Tensor]]:
    """Contiguous operands, and strided ones, which all of ATen's scalar loops see."""
    return [operands(count, (4099,), 11, "mixed"), operands(count, (2053,), 12, "mixed", "strided")]


Case = tuple[str, int, tuple[Any, ...], dict[str, Any]]  # op, number of tensors, other arguments, keyword arguments


def golden_of(run: Callable[..., torch.Tensor], cases: dict[str, Case]) -> dict[str, str]:
    """Digest by case of `run(op, *args, **kwargs)`."""
    results = {
        name: [one_nan(run(op, *args, *rest, **kwargs)) for args in golden_args(count)]
        for name, (op, count, rest, kwargs) in cases.items()
    }
    return {name: digest(torch.cat(parts)) for name, parts in results.items()}


def read_golden() -> dict[str, str]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))
