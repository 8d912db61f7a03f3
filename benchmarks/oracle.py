"""Speed of the oracle: small operators (calls per second) and kernels (elements per second), variants measured in turn.

    python benchmarks/oracle.py --rounds 5
    python benchmarks/oracle.py --baseline DIR      # also an older oracle: DIR holds a package `oracle` with `Oracle()`

Each variant runs in a process of its own; a round measures every variant once (A B C, A B C, ...). Figures are medians over
the rounds of CPU time, so that other load on the machine counts less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SMALL_CALLS, LARGE = 60, 1_000_000


def _cases() -> dict[str, tuple[str, tuple[Any, ...], int]]:
    """Name -> operator, arguments, elements (0 for small operators, which count calls)."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    x, y, w, v, one = randn(16), randn(16), randn(16, 16), randn(16, 16), torch.ones(16)
    big, rows, scale = randn(LARGE), randn(1000, 1000), torch.ones(1000)
    return {
        "add, 16": ("aten::add.Tensor", (x, y), 0), "mul by a number, 16": ("aten::mul.Tensor", (x, 2.0), 0),
        "add_, 16": ("aten::add_.Tensor", (x, y), 0), "exp, 16": ("aten::exp", (x,), 0),
        "sum, 16x16": ("aten::sum", (w,), 0), "softmax, 16x16": ("aten::_softmax", (w, 1, False), 0),
        "layer_norm, 16x16": ("aten::native_layer_norm", (w, [16], one, one, 1e-5), 0),
        "mm, 16x16x16": ("aten::mm", (w, v), 0), "cat, 2 of 16x16": ("aten::cat", ([w, v], 1), 0),
        "exp, 10^6": ("aten::exp", (big,), LARGE), "erf, 10^6": ("aten::erf", (big,), LARGE),
        "gelu, 10^6": ("aten::gelu", (big,), LARGE), "sum, 10^6": ("aten::sum", (big,), LARGE),
        "softmax, 1000x1000": ("aten::_softmax", (rows, 1, False), LARGE),
        "layer_norm, 1000x1000": ("aten::native_layer_norm", (rows, [1000], scale, scale, 1e-5), LARGE),
    }  # fmt: skip


def _oracle(variant: str) -> Any:
    if variant.startswith("baseline:"):
        sys.path.insert(0, variant.partition(":")[2])
        from oracle import Oracle as Baseline  # type: ignore[import-not-found]

        return Baseline()
    from torch_densecore.oracle import Oracle

    return Oracle(translate=variant == "translated")


def serve(variant: str) -> None:
    """Worker: for each line on standard input, measure every case once and print the seconds per call as JSON."""
    oracle, cases = _oracle(variant), _cases()
    for name, args, _ in cases.values():
        oracle.call(name, *args)  # translation, caches
    for _ in sys.stdin:
        seconds = {}
        for label, (name, args, elements) in cases.items():
            repeats = 1 if elements else SMALL_CALLS
            start = time.process_time()
            for _ in range(repeats):
                oracle.call(name, *args)
            seconds[label] = (time.process_time() - start) / repeats
        print(json.dumps(seconds), flush=True)


def measure(variants: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Median seconds per call, by variant and case."""
    workers = {
        v: subprocess.Popen(
            [sys.executable, __file__, "--serve", v], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for v in variants
    }
    samples: dict[str, list[dict[str, float]]] = {v: [] for v in variants}
    for _ in range(rounds):
        for variant, worker in workers.items():
            worker.stdin.write("go\n")
            worker.stdin.flush()
            samples[variant].append(json.loads(worker.stdout.readline()))
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return {v: {c: statistics.median(s[c] for s in samples[v]) for c in samples[v][0]} for v in variants}


def report(variants: list[str], seconds: dict[str, dict[str, float]]) -> str:
    """The table, as Markdown: rate of each variant, and its ratio to the first."""
    names = [v.partition(":")[0] for v in variants]
    lines = ["| case | " + " | ".join(names) + " | " + " | ".join(f"{n} / {names[0]}" for n in names[1:]) + " |"]
    lines.append("|---|" + "---:|" * (2 * len(names) - 1))
    for label, (_, _, elements) in _cases().items():
        rates = [max(elements, 1) / seconds[v][label] for v in variants]
        shown = [f"{rate / 1e6:.1f} M elements/s" if elements else f"{rate:,.0f} calls/s" for rate in rates]
        ratios = [f"{rate / rates[0]:.1f}" for rate in rates[1:]]
        lines.append(f"| {label} | {' | '.join(shown)} | {' | '.join(ratios)} |")
    small = [c for c, (_, _, e) in _cases().items() if not e]
    for kind, cases in (("small operators", small), ("kernels", [c for c in _cases() if c not in small])):
        means = [float(np.exp(np.mean([np.log(seconds[variants[0]][c] / seconds[v][c]) for c in cases]))) for v in variants[1:]]
        lines.append(f"| geometric mean, {kind} |{' |' * len(names)} {' | '.join(f'{m:.1f}' for m in means)} |")
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--baseline", type=Path, help="folder that holds an older package `oracle`")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    variants = ([f"baseline:{options.baseline}"] if options.baseline else []) + ["emulated", "translated"]
    print(report(variants, measure(variants, options.rounds)))


if __name__ == "__main__":
    main()
