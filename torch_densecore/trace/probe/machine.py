"""`densecore probe`: everything about this machine's arithmetic as one JSON file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .. import environment
from ..comparison import shapes_of
from ..digest import bytes_digest, tensor_digest
from ..explain.explanation import model_outputs
from ..explain.models import candidates
from ..recorder import record
from ..replay import load_calls
from . import blas, fields, linear
from .follow import device_profile, family
from .functions import emulated
from .values import small_values

VERSION = 1
KEY = "densecore_probe"
QUICK_PARTS = ("rules", "products", "fields")
ROWS = (7, 30, 33, 64, 65, 128, 384, 1000)  # row lengths at which normalisations are tried
GRID = 1 << 14  # arguments of every special function
FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "sigmoid", "sqrt", "rsqrt",
    "reciprocal", "i0",
)  # fmt: skip
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "gelu": F.gelu, "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "softplus": F.softplus,
    "mish": F.mish, "elu": F.elu, "logsigmoid": F.logsigmoid, "pow 3": lambda x: x.abs().pow(3.0),
    "pow 0.7": lambda x: x.abs().pow(0.7), "atan2": lambda x: torch.atan2(x, x.flip(0)),
}  # fmt: skip


def probe(*, seconds: float = 60.0, quick: bool = False, progress: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Probes the machine that it runs on. `seconds` limits the largest part, the products.

    quick: only what the device can follow, and products of fewer sizes.
    """
    begin = time.monotonic()
    result: dict[str, Any] = {KEY: VERSION, "emulated": emulated(), "environment": environment.collect()}
    names = linear.OrderNames()
    parts: dict[str, Callable[[], Any]] = {
        "sums": lambda: linear.probe_sums(names),
        "sums over rows": lambda: linear.probe_outer_sums(names),
        "thread chunks": lambda: {"sum of 131072 elements is cut before": linear.probe_chunks()},
        "models": models,
        "functions": functions,
        "random numbers": random_numbers,
        "rules": rules,
        "products": lambda: blas.probe(seconds, quick=quick),
        "fields": lambda: fields.probe(fields.QUICK_ROWS if quick else fields.ROWS, result["products"]["table"]),
    }
    with torch.no_grad():
        for name, part in parts.items():
            if not quick or name in QUICK_PARTS:
                progress(name)
                result[name] = part()
    result["profile"], result["not followed"] = device_profile(result)
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def grid() -> torch.Tensor:
    """Float32 arguments that cover signs and magnitudes, made of integers alone: the same on every machine."""
    step = (1 << 31) // GRID
    words = (np.arange(GRID, dtype=np.int64) * 2 * step + 0x1234567) & 0xFFFFFFFF
    values = words.astype(np.uint32).view(np.float32)
    return torch.from_numpy(np.where(np.isfinite(values), values, np.float32(1)))


def models() -> list[dict[str, Any]]:
    """Operators tried against candidate arithmetic: [{op, shapes, tried, fit}], the models in words."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probe.dct")
        with record(path, keep="ops=*"):
            _run_examples()
        for call in load_calls(path).values():
            tried = candidates(call)
            if tried:
                fit = [m.words() for m in tried if _reproduces(model_outputs(m, call), call.outputs)]
                found.append({"op": call.site.op, "shapes": shapes_of(call.site), "tried": family(tried), "fit": fit})
    return found


def _run_examples() -> None:
    for n in ROWS:
        # many short rows: their tails are long, and a rounding there seldom shows
        x, weight, bias = small_values(512 if n < 33 else 16, n), small_values(n), small_values(n) * 0.5
        F.layer_norm(x, (n,))
        F.layer_norm(x, (n,), weight, bias)
        F.softmax(x, -1)
        F.log_softmax(x, -1)
    for n in ROWS:
        x = small_values(16, n)
        x.sum(-1), x.mean(-1), x.sum(0)
    for m, k, n in ((33, 64, 70), (64, 100, 64), (48, 385, 40), (64, 300, 64), (64, 800, 64)):
        torch.mm(small_values(m, k), small_values(k, n))
        torch.addmm(small_values(n), small_values(m, k), small_values(n, k).t())
    x, y, z = small_values(1003), small_values(1003).flip(0), small_values(1003) + 3
    torch.addcmul(x, y, z, value=0.3)
    torch.addcdiv(x, y, z, value=0.3)
    torch.add(x, y, alpha=0.3)
    torch.lerp(x, y, 0.3)
    torch.lerp(x, y, 0.7)
    for name in ("exp", "log", "tanh", "erf", "sin", "cos", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal"):
        getattr(torch, name)(z if name in ("log", "sqrt", "rsqrt", "reciprocal") else x)
    F.gelu(x)
    x.bfloat16()
    (x * 1e10).to(torch.int32)
    (x * 1e20).to(torch.int64)
    torch.manual_seed(0)
    for size in (5, 16, 37, 256):
        torch.empty(size).normal_()
        torch.empty(size).uniform_(-0.3, 0.7)


def _reproduces(outputs: list[torch.Tensor | None], wanted: list[torch.Tensor]) -> bool:
    pairs = [(x, y) for x, y in zip(outputs, wanted, strict=False) if x is not None]
    # of a large product only the first rows are computed
    pairs = [(x, y if x.dim() != y.dim() or not y.dim() else y[: x.shape[0]]) for x, y in pairs]
    return bool(pairs) and all(x.dtype == y.dtype and tensor_digest(x) == tensor_digest(y) for x, y in pairs)


def functions() -> dict[str, dict[str, Any]]:
    """Digest of every function over the grid (vector code) and one element at a time (tails)."""
    x = grid()
    found = {}
    for name, function in {**{name: getattr(torch, name) for name in FUNCTIONS}, **ACTIVATIONS}.items():
        values = function(x)
        tail = torch.cat([function(part) for part in x[:512].split(1)])
        found[name] = {
            "digest": tensor_digest(values),
            "digest of tails": tensor_digest(tail),
            "tail equals body": tensor_digest(tail) == tensor_digest(values[:512].contiguous()),
            "depends on position": tensor_digest(function(x[1:].clone())) != tensor_digest(values[1:].contiguous()),
            **_distance(function, x, values),
        }
    return found


def _distance(function: Callable, x: torch.Tensor, values: torch.Tensor) -> dict[str, Any]:
    """How far the function is from the float64 one rounded."""
    from ..ulp import ulp_distance

    rounded = function(x.double()).float()
    distance = ulp_distance(values.numpy().tobytes(), rounded.numpy().tobytes(), "float32")
    finite = distance[np.isfinite(distance) & torch.isfinite(rounded).numpy()]
    return {"not rounded correctly": int(np.count_nonzero(finite)), "max ulp": float(finite.max(initial=0))}


def random_numbers() -> dict[str, Any]:
    """Digests of what each generator function draws after manual_seed(0)."""
    draws: dict[str, Callable[[], torch.Tensor]] = {
        "randint": lambda: torch.randint(1 << 40, (100,)), "randperm": lambda: torch.randperm(1000),
        "bernoulli": lambda: torch.empty(1000).bernoulli_(0.3), "exponential": lambda: torch.empty(1000).exponential_(),
        "multinomial": lambda: torch.multinomial(torch.ones(50), 40, replacement=True),
        "dropout": lambda: F.dropout(torch.ones(1000), 0.3), "cauchy": lambda: torch.empty(1000).cauchy_(),
        "log_normal": lambda: torch.empty(1000).log_normal_(), "geometric": lambda: torch.empty(1000).geometric_(0.3),
        "normal (float64)": lambda: torch.empty(1000, dtype=torch.float64).normal_(),
    }  # fmt: skip
    for size in (1, 15, 16, 17, 37, 1000):
        draws[f"normal [{size}]"] = lambda n=size: torch.empty(n).normal_()
        draws[f"uniform [{size}]"] = lambda n=size: torch.empty(n).uniform_()
    found = {}
    for name, draw in draws.items():
        torch.manual_seed(0)
        values = draw()
        state = bytes_digest(torch.get_rng_state().numpy().tobytes())
        found[name] = {
            "digest": tensor_digest(values),
            "state": state,
            "first": values.reshape(-1)[:4].double().tolist(),
        }
    return found


def rules() -> dict[str, Any]:
    """Conversions and corner cases."""
    odd = torch.tensor([1e10, -1e10, float("inf"), float("-inf"), float("nan"), 300.0, -1.0])
    tiny = torch.tensor([1e-40])
    return {
        "float to int32": odd.to(torch.int32).tolist(),
        "float to int64": odd.mul(1e10).to(torch.int64).tolist(),
        "float to uint8": odd.to(torch.uint8).tolist(),
        "bfloat16 of 1 + 2^-8 and 1 + 3 * 2^-8": torch.tensor([1 + 2.0**-8, 1 + 3 * 2.0**-8])
        .bfloat16()
        .float()
        .tolist(),
        "subnormals kept": bool((tiny * 1.0).item() != 0.0),
        "0 * inf": str((torch.tensor([0.0]) * float("inf")).view(torch.int32).item() & 0xFFFFFFFF),
        "division": (torch.ones(16) / 3).view(torch.int32)[0].item(),
    }
