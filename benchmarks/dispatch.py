"""What an op costs before its arithmetic: densecore against cpu on tiny tensors, and a GPT training step.

    python benchmarks/dispatch.py            # ops
    python benchmarks/dispatch.py --step     # a training step of the small GPT, too

Each op is timed in turn on both devices (A B A B ...), one thread; the figures are medians. `difference` is what the device adds to
the CPU's time in microseconds. Targets: at most 2.5 for an op that the host serves, 0.5 for a kernel of ours, 1.15 for the step's
ratio. A timing never fails anything.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import torch_densecore
from torch_densecore import _C

Case = Callable[[], object]


def cases(device: str) -> dict[str, tuple[str, Case]]:
    """Name -> (op that is dispatched, call)."""
    x = torch.ones(16, device=device)
    m = torch.ones(8, 8, device=device)
    mask = x > 0
    row = torch.ones(4, 32, device=device)
    weight = torch.ones(32, device=device)
    q = torch.ones(1, 2, 8, 16, device=device)
    return {
        "view": ("aten::view", lambda: x.view(4, 4)),
        "empty": ("aten::empty.memory_format", lambda: torch.empty(16, device=device)),
        "neg": ("aten::neg", lambda: x.neg()),
        "add": ("aten::add.Tensor", lambda: x + x),
        "mul_": ("aten::mul_.Tensor", lambda: x.mul_(1.0)),
        "exp": ("aten::exp", lambda: x.exp()),
        "sum": ("aten::sum.dim_IntList", lambda: m.sum(1)),
        "mm": ("aten::mm", lambda: m.mm(m)),
        "softmax": ("aten::_softmax", lambda: m.softmax(-1)),
        "layer_norm": ("aten::native_layer_norm", lambda: torch.nn.functional.layer_norm(row, (32,), weight, weight)),
        "attention": (
            "aten::_scaled_dot_product_flash_attention_for_cpu",
            lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True),
        ),
        "masked_fill": ("aten::masked_fill.Scalar", lambda: x.masked_fill(mask, 0.0)),
        "cat": ("aten::cat", lambda: torch.cat([x, x])),
        "special_bessel_j1": ("aten::special_bessel_j1", lambda: torch.special.bessel_j1(x)),
        "item": ("aten::_local_scalar_dense", lambda: x[0].item()),
    }


def in_turn(first: Case, second: Case, rounds: int, calls: int) -> list[tuple[float, float]]:
    """Seconds a call of both, timed alternately."""
    pairs = []
    for _ in range(rounds):
        pairs.append((timeit.timeit(first, number=calls) / calls, timeit.timeit(second, number=calls) / calls))
    return pairs


def measure_ops(rounds: int, calls: int) -> Table:
    table = Table(title=f"microseconds a call, 1 thread, medians of {rounds} alternating rounds of {calls} calls")
    for column in ("call", "served by", "cpu", "densecore", "difference"):
        table.add_column(column, justify="left" if column in ("call", "served by") else "right")
    own = {name for name, _ in _C.own_kernels()}
    cpu, device = cases("cpu"), cases("densecore")
    with torch.no_grad():
        for name, (op, call) in cpu.items():
            pairs = in_turn(call, device[name][1], rounds, calls)
            a, b = (statistics.median(pair[i] for pair in pairs) * 1e6 for i in (0, 1))
            difference = statistics.median(pair[1] - pair[0] for pair in pairs) * 1e6
            table.add_row(name, "kernel" if op in own else "host", f"{a:.2f}", f"{b:.2f}", f"{difference:+.2f}")
    return table


def training_step(device: str) -> Case:
    """One step of the small GPT: block 64, batch 12, 4 layers, 4 heads, width 128."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "nanogpt"))
    from gpt import GPT, Config

    torch.manual_seed(0)
    model = GPT(Config()).to(device)
    optimizer = model.optimizer()
    tokens = torch.randint(65, (12, 65)).to(device)

    def step() -> None:
        model(tokens[:, :-1], tokens[:, 1:].contiguous().view(12, -1))[1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--step", action="store_true", help="a GPT training step as well")
    args = parser.parse_args()
    torch_densecore.set_uncertified("host")
    torch.set_num_threads(1)
    console = Console()
    console.print(measure_ops(args.rounds, args.calls))
    if args.step:
        steps = training_step("cpu"), training_step("densecore")
        for step in steps:
            step()
        pairs = in_turn(*steps, rounds=args.rounds, calls=1)
        ratio = statistics.median(b / a for a, b in pairs)
        console.print(f"GPT training step, densecore / cpu: {ratio:.3f} (median of {args.rounds} alternating steps)")


if __name__ == "__main__":
    main()
