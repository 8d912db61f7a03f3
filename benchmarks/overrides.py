"""What overrides cost: nothing where they do not concern an op.

    python benchmarks/overrides.py [--rounds N] [--calls N]

Each op runs in turn (A B A B ...) without any override and

- with another op overridden: the ratio should be 1.00, for the op's kernel and its dispatch are untouched;
- overridden itself, by each mode: what the handler adds, in microseconds a call (`host` runs another kernel).

CPU time of one thread; medians over the rounds. A timing never fails anything.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import torch_densecore
from torch_densecore import override
from torch_densecore.overrides import report

Call = Callable[[], object]
ELSEWHERE = {"aten::bmm": "host", "aten::_softmax": "check:host", "h.3:aten::addmm": "host"}  # none of the ops below


def cases() -> dict[str, tuple[str, Call]]:
    """Name -> (op, call), on tensors so small that the dispatch is what is measured."""
    x = torch.ones(16, device="densecore")
    m = torch.ones(8, 8, device="densecore")
    return {
        "add (kernel)": ("aten::add.Tensor", lambda: x + x),
        "mm (kernel)": ("aten::mm", lambda: m.mm(m)),
        "sum (kernel)": ("aten::sum.dim_IntList", lambda: m.sum(1)),
        "neg (host call)": ("aten::neg", lambda: x.neg()),
        "cat (host call)": ("aten::cat", lambda: torch.cat([x, x])),
    }


def seconds(call: Call, calls: int) -> float:
    """CPU time a call."""
    start = time.thread_time()
    for _ in range(calls):
        call()
    return (time.thread_time() - start) / calls


def in_turn(call: Call, rules: dict[str, object], rounds: int, calls: int) -> list[tuple[float, float]]:
    """(without, with the override) of each round; which comes first alternates."""
    context = override(rules)

    def overridden() -> float:
        with context:
            return seconds(call, calls)

    pairs = []
    for index in range(rounds):
        if index % 2:
            second = overridden()
            pairs.append((seconds(call, calls), second))
        else:
            pairs.append((seconds(call, calls), overridden()))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=2000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    report.silence()  # that overrides of other ops are not hit is the point
    torch_densecore.set_uncertified("host")
    modes = {"densecore": "densecore", "host": "host", "check:host": "check:host:log", "in other modules": "densecore"}
    table = Table(title=f"{args.rounds} alternating rounds of {args.calls} calls, medians")
    for column in ("op", "us a call", "another op overridden", *(f"{mode}, added us" for mode in modes)):
        table.add_column(column, justify="left" if column == "op" else "right")
    with torch.no_grad():
        for name, (op, call) in tqdm(cases().items(), disable=None, leave=False):
            elsewhere = in_turn(call, ELSEWHERE, args.rounds, args.calls)
            row = [f"{statistics.median(a for a, _ in elsewhere) * 1e6:.2f}"]
            row.append(f"{statistics.median(b / a for a, b in elsewhere):.3f}")
            for mode, setting in modes.items():
                pairs = in_turn(call, {f"other:{op}" if mode == "in other modules" else op: setting}, args.rounds, args.calls)
                row.append(f"{statistics.median(b - a for a, b in pairs) * 1e6:+.2f}")
            table.add_row(name, *row)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
