"""Ratios of densecore to the host's own CPU, measured in turn.

    python benchmarks/attention.py [--threads N] [--rounds N] [--markdown]

Each case runs on both devices alternately, round by round, so that a slow moment of the machine meets both sides. With one thread
the clock is the CPU time of the process, which other programs do not disturb as much, and the figure is the median of the rounds'
ratios. With more threads it is the wall clock; there a program that takes a core makes a round many times slower, so the figure is
the ratio of both sides' first quartiles.
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
    """densecore / cpu: the figure (see above) and the quartiles of the rounds' ratios."""

    name: str
    figure: float
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
    times: dict[Callable[[], object], list[float]] = {host: [], device: []}
    for index in range(rounds):
        for call in (host, device) if index % 2 else (device, host):
            times[call].append(max(seconds(call, repeats, clock), 1e-9))
    ratios = [ours / theirs for ours, theirs in zip(times[device], times[host], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    fast = {call: statistics.quantiles(values, n=4)[0] for call, values in times.items()}
    return Ratio(case.name, middle if clock is time.process_time else fast[device] / fast[host], low, high)


def markdown(heading: str, results: Sequence[Ratio]) -> str:
    """A table of ratios."""
    rows = [f"| {r.name} | {r.figure:.2f} | {r.low:.2f} .. {r.high:.2f} |" for r in results]
    return "\n".join([f"| {heading} | ratio | quartiles |", "|---|---:|---:|", *rows])


def measure_all(cases: Sequence[Case], threads: int, rounds: int) -> list[Ratio]:
    """The ratios of all cases with so many host threads."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    return [measure(case, rounds, clock) for case in tqdm(cases, disable=None, leave=False)]


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
    results = measure_all([case for case in cases if args.only in case.name], args.threads, args.rounds)
    heading = f"{title}: densecore / cpu, {args.threads} thread{'s' if args.threads > 1 else ''}"
    if args.markdown:
        print(markdown(heading, results))
    else:
        table = Table("case", "ratio", "quartiles", title=heading)
        for r in results:
            table.add_row(r.name, f"{r.figure:.2f}", f"{r.low:.2f} .. {r.high:.2f}")
        Console().print(table)
    return args
