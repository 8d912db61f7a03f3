"""Translated against emulated and against the host's own operator, measured in turn in one process.

    python benchmarks/oracle_translate.py [--rounds N] [--only exp] [--markdown]
    python benchmarks/oracle_translate.py --table       # also a GPT training step with every op in the wheel, and a boot
    python benchmarks/oracle_translate.py --sweep       # minutes for all 2**32 inputs of a unary operator, extrapolated

A round runs two sides in turn (A B, A B, ...) and takes CPU time, on one thread; figures are medians over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpt_step
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from torch_densecore.oracle import Oracle
from torch_densecore.oracle.mode import OracleMode
from torch_densecore.oracle.translate.sweep import BLOCK, WORDS, reference

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import demo_bit_exact  # noqa: E402

SMALL, LARGE = (4, 37), 1 << 20
UNARY = (
    "exp", "log", "tanh", "erf", "sin", "cos", "tan", "atan", "asinh", "expm1", "log1p", "log2", "exp2", "sigmoid", "gelu",
    "silu", "sqrt", "rsqrt", "reciprocal", "lgamma", "erfinv",
)  # fmt: skip
SWEPT_BLOCKS = 8


@dataclass(frozen=True)
class Case:
    """One operator call and the host's equivalent."""

    name: str
    op: str
    args: tuple[Any, ...]

    def host(self) -> Any:
        """The call with the host's torch."""
        name, _, overload = self.op.partition("::")[2].partition(".")
        return getattr(getattr(torch.ops.aten, name), overload or "default")(*self.args)


def cases() -> list[Case]:
    """Small operators, and kernels over about 10^6 elements."""
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    small, big, rows, ones = randn(*SMALL), randn(LARGE), randn(1024, 1024), torch.ones(1024)
    return [
        Case("add, 4x37", "aten::add.Tensor", (small, small)), Case("exp, 4x37", "aten::exp", (small,)),
        Case("exp, 2^20", "aten::exp", (big,)), Case("gelu, 2^20", "aten::gelu", (big,)),
        Case("sum, 2^20", "aten::sum", (big,)), Case("sort, 2^20", "aten::sort", (big,)),
        Case("softmax, 1024x1024", "aten::_softmax", (rows, 1, False)),
        Case("layer_norm, 1024x1024", "aten::native_layer_norm", (rows, [1024], ones, ones, 1e-5)),
    ]  # fmt: skip


def seconds(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def measure(oracle: Oracle, case: Case, rounds: int) -> tuple[float, float]:
    """Medians of emulated / translated and of translated / host."""
    cpu = oracle.machine.translated
    assert cpu is not None

    def run() -> None:
        oracle.call(case.op, *case.args)

    repeats = 1 if case.args[0].numel() > 1000 else 50
    for _ in range(6 if repeats == 1 else 500):  # until the busy units are optimised
        run()

    def emulated() -> None:
        with cpu.emulating():
            run()

    # in two series: the emulator would take the caches away from the translated call alone, as the host's comes after that
    return in_turn(emulated, run, repeats, rounds), in_turn(run, case.host, repeats, rounds)


def in_turn(first: Callable[[], object], second: Callable[[], object], repeats: int, rounds: int) -> float:
    """Median of first / second, measured in turn."""
    return statistics.median(seconds(first, repeats) / max(seconds(second, repeats), 1e-9) for _ in range(rounds))


def gpt_steps(oracle: Oracle, rounds: int) -> Iterator[tuple[str, float]]:
    """Medians of wheel / host for a training step of the demo's GPT and of a larger one, every op translated."""
    programs = {"GPT step, block 64, width 64": lambda: demo_bit_exact.Run("cpu", demo_bit_exact.Data()).step,
                "GPT step, block 64, width 128": lambda: gpt_step.step_of("block 64", 0.2, "cpu")}  # fmt: skip
    for name, program in programs.items():
        host, mode = program(), OracleMode(oracle)
        with mode:
            wheel = program()
            for _ in range(40):  # until the busy units are optimised
                wheel()
        host()

        def translated(mode: OracleMode = mode, wheel: Callable[[], object] = wheel) -> None:
            with mode:
                wheel()

        yield name, in_turn(translated, host, 2, rounds)


def boot_seconds(rounds: int) -> float:
    """Median time to boot an oracle from its snapshot and run one small operator, in a process of its own."""
    program = (
        "import time, torch\nfrom torch_densecore.oracle import Oracle\nx = torch.ones(3)\nstart = time.perf_counter()\n"
        "Oracle(translate=True).call('aten::exp', x)\nprint(time.perf_counter() - start)"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(rounds)]
    return statistics.median(float(run.stdout) for run in runs)


def table(oracle: Oracle, rounds: int) -> list[list[str]]:
    """Every case, its ratio to the host, and the emulator's ratio to it; small operators with their microseconds."""
    rows = []
    for case in cases():
        speedup, ratio = measure(oracle, case, rounds)
        rows.append([case.name, f"{speedup:.1f}", f"{ratio:.1f}"])
    add = cases()[0]
    small = statistics.median(seconds(lambda: oracle.call(add.op, *add.args), 200) for _ in range(rounds))
    rows.append(["add, 4x37, microseconds", "", f"{1e6 * small:.0f}"])
    rows += [[name, "", f"{ratio:.1f}"] for name, ratio in gpt_steps(oracle, rounds)]
    rows.append(["boot and first operator, seconds", "", f"{boot_seconds(rounds):.2f}"])
    return rows


def sweep_minutes(oracle: Oracle, op: str, scalar: bool, rounds: int) -> float:
    """Minutes of CPU time for 2**32 inputs, from blocks spread over the range."""
    starts = np.linspace(0, WORDS - BLOCK, SWEPT_BLOCKS).astype(np.int64) // BLOCK * BLOCK

    def blocks() -> Iterator[Any]:
        for start in starts.tolist():
            yield from reference(oracle, op, start, start + BLOCK, scalar=scalar)

    for _ in blocks():
        pass
    times = [seconds(lambda: list(map(len, blocks())), 1) for _ in range(rounds)]
    return statistics.median(times) / (SWEPT_BLOCKS * BLOCK) * WORDS / 60


def show(title: str, columns: list[str], rows: list[list[str]], markdown: bool) -> None:
    """Print a table."""
    if markdown:
        print(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")
        print("\n".join(f"| {' | '.join(row)} |" for row in rows))
        return
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    oracle = Oracle(translate=True)
    if options.sweep:
        rows = []
        for name in (n for n in UNARY if options.only in n):
            minutes = [sweep_minutes(oracle, f"aten::{name}", scalar, options.rounds) for scalar in (False, True)]
            rows.append([name, *(f"{value:.1f}" for value in minutes)])
        columns = ["operator", "vector path, min", "scalar path, min"]
        show("2**32 inputs through the translated wheel, one core", columns, rows, options.markdown)
        return
    columns = ["case", "emulated / translated", "translated / host"]
    if options.table:
        show("translated wheel, one thread", columns, table(oracle, options.rounds), options.markdown)
        return
    rows = []
    for case in (c for c in cases() if options.only in c.name):
        speedup, ratio = measure(oracle, case, options.rounds)
        rows.append([case.name, f"{speedup:.1f}", f"{ratio:.1f}"])
    show("translated wheel, one thread", columns, rows, options.markdown)


if __name__ == "__main__":
    main()
