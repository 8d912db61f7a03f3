"""Writes docs/speed.md: every benchmark of an op beside the host's own, and the GPT training step.

    python benchmarks/speed_page.py [--rounds N] [--only GROUP ...]

Run it on a machine with nothing else to do. --only measures some groups anew and keeps the others' tables.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
from pathlib import Path

import attention
import blas
import distributions
import gpt_step
import norm
import pointwise
import reduce
import softmax
import torch
import unary
from timing import markdown, measure_all

PAGE = Path(__file__).parent.parent / "docs" / "speed.md"
GROUPS = {
    "GPT training step": gpt_step, "Matrix products": blas, "Flash attention": attention, "Softmax and loss": softmax,
    "Layer normalization": norm, "Reductions": reduce, "Pointwise, sorting, indexing": pointwise, "Unary functions": unary,
    "Random numbers": distributions,
}  # fmt: skip
WITH_TWO_THREADS = ("GPT training step", "Matrix products", "Flash attention")
BUSY = 1.5  # programs per core from which a wall clock tells of the others; two threads are not measured then
INTRODUCTION = """# Speed

Time of densecore divided by the time of torch's own CPU op on the same machine: below 1 is faster than the host. Ratios depend on
the CPU, so measure your own: `python benchmarks/speed_page.py` writes this page. `benchmarks/timing.py` tells how a ratio is taken:
both sides in turn, round by round; CPU time with one thread, wall clock with two (left out where the machine was busy)."""


def cpu_name() -> str:
    """The host's CPU as Linux names it, else what Python knows."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", info.read_text()) if info.is_file() else None
    return found[1] if found else platform.processor() or platform.machine()


def load_per_core() -> float:
    """Programs that want a core, over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def host_line(rounds: int) -> str:
    """What was measured where, for the head of a group."""
    level, load = torch.backends.cpu.get_cpu_capability(), load_per_core()
    return (
        f"{cpu_name()}, {os.cpu_count()} cores, {level}, torch {torch.__version__}; {rounds} rounds; programs that wanted a core "
        f"meanwhile: {load:.1f} for each core."
    )


def measured(name: str, rounds: int) -> str:
    """The tables of a group."""
    module = GROUPS[name]
    tables = []
    for threads in (1, 2) if name in WITH_TWO_THREADS and load_per_core() < BUSY else (1,):
        heading = f"{threads} thread{'s' if threads > 1 else ''}"
        tables.append(markdown(heading, measure_all(module.CASES, threads, rounds)))
    if module is gpt_step:
        torch.set_num_threads(1)
        tables += [gpt_step.op_table(size, 0.2, rounds=3) for size in gpt_step.SIZES]
        tables.append(
            f"Peak memory of a process that trains block 256, above one that imports torch: {gpt_step.memory_ratio():.2f}."
        )
    return "\n\n".join([f"## {name}", host_line(rounds), *tables])


def kept() -> dict[str, str]:
    """The groups that the page has already."""
    text = PAGE.read_text() if PAGE.is_file() else ""
    return {part.partition("\n")[0].removeprefix("## "): part.rstrip() for part in re.split(r"\n(?=## )", text)[1:]}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP")
    args = options.parse_args()
    groups = kept()
    for name in args.only:
        groups[name] = measured(name, args.rounds)
        text = "\n\n".join([INTRODUCTION, *(groups[g] for g in GROUPS if g in groups)])
        PAGE.write_text(text + "\n")


if __name__ == "__main__":
    main()
