"""Ratios of densecore to the host's own CPU, measured in turn.

    python benchmarks/attention.py [--threads N] [--rounds N] [--markdown]

Each case runs on both devices alternately, round by round; the figure is the median of the rounds' ratios, so that a slow moment of
the machine meets both sides. With one thread the clock is the CPU time of the process, which other programs do not disturb as
much; with more it is the wall clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import torch_densecore

ROUND_SECONDS = 0.02  # a round repeats a call for about this long


@dataclass(frozen=True)
class Case:
    """`build(device)` returns the call to time; it is called once per device."""

    name: str
    build: Callable[[str], Callable[[], object]]


@dataclass(frozen=True)
class Ratio:
    """densecore / cpu: the median over rounds and the quartiles."""

    name: str
    median: float
    low: float
    high: float


def seconds(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Time of `repeats` calls."""
    start = clock()
    for _ in range(repeats):
        call()
    return clock() - start


def build(case: Case) -> tuple[Callable[[], object], Callable[[], object]]:
    """The calls on cpu and on densecore. Operands may be drawn on this host; an op that it would serve is an error."""
    torch_densecore.set_uncertified("host")
    calls = case.build("cpu"), case.build("densecore")
    torch_densecore.accept_cpu_draws()
    torch_densecore.set_uncertified("error")
    return calls


def measure(case: Case, rounds: int = 15, clock: Callable[[], float] = time.perf_counter) -> Ratio:
    """Runs A B A B ... and returns the ratio of densecore to cpu."""
    host, device = build(case)
    for call in (host, device):
        call()
    repeats = max(1, int(ROUND_SECONDS / max(seconds(host, 1, clock), 1e-7)))
    ratios = []
    for index in range(rounds):
        first, second = (host, device) if index % 2 else (device, host)
        times = {first: seconds(first, repeats, clock), second: seconds(second, repeats, clock)}
        ratios.append(times[device] / max(times[host], 1e-9))
    quartiles = statistics.quantiles(ratios, n=4)
    return Ratio(case.name, statistics.median(ratios), quartiles[0], quartiles[2])


def parser(title: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    options = argparse.ArgumentParser(description=title)
    options.add_argument("--threads", type=int, default=1, help="host threads of both sides")
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--only", default="", help="cases whose name contains this")
    options.add_argument("--markdown", action="store_true", help="print a Markdown table")
    return options


def main(title: str, cases: Sequence[Case], options: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Command line of a benchmark file: measures the cases, prints a table and returns the options."""
    args = (options or parser(title)).parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.threads == 1 else time.perf_counter
    chosen = [case for case in cases if args.only in case.name]
    results = [measure(case, args.rounds, clock) for case in tqdm(chosen, disable=None, leave=False)]
    heading = f"{title}: densecore / cpu, {args.threads} thread{'s' if args.threads > 1 else ''}"
    rows = [(r.name, f"{r.median:.2f}", f"{r.low:.2f} .. {r.high:.2f}") for r in results]
    if args.markdown:
        print(f"| {heading} | ratio | quartiles |\n|---|---:|---:|")
        for row in rows:
            print("| " + " | ".join(row) + " |")
    else:
        table = Table("case", "ratio", "quartiles", title=heading)
        for row in rows:
            table.add_row(*row)
        Console().print(table)
    return args
