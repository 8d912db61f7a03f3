"""A GPT training step on densecore beside the host's CPU, measured in turn, and where the time goes op by op.

    python benchmarks/gpt_step.py [--threads N] [--rounds N] [--ops] [--memory] [--markdown]

Two sizes (block 64, batch 12, 4 layers, 4 heads, 128 wide; block 256, batch 8, 6 layers, 6 heads, 384 wide), dropout 0 and 0.2.
--ops lists each op's share of the host's step and its ratio; --memory prints the peak of resident memory of one step's process.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from timing import Case, build, main, parser
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "nanogpt"))
from gpt import GPT, Config  # noqa: E402

SIZES = {
    "block 64": (Config(block=64, layers=4, heads=4, width=128), 12),
    "block 256": (Config(block=256, layers=6, heads=6, width=384), 8),
}


def step_of(size: str, dropout: float, device: str) -> Callable[[], object]:
    """The training step of a size: forward, backward, clipping, AdamW."""
    config, batch = SIZES[size]
    torch.manual_seed(0)
    model = GPT(Config(**{**vars(config), "dropout": dropout})).to(device)
    optimizer = model.optimizer()
    tokens = torch.randint(config.vocab, (2, batch, config.block)).to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(tokens[0], tokens[1])[1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def case(size: str, dropout: float) -> Case:
    return Case(f"{size}, dropout {dropout}", lambda device: step_of(size, dropout, device))


CASES = [case(size, dropout) for size in SIZES for dropout in (0.0, 0.2)]


def op_times(step: Callable[[], object], steps: int = 1) -> dict[str, float]:
    """Self time of each op in microseconds per step."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        for _ in range(steps):
            step()
    times: dict[str, float] = defaultdict(float)
    for event in recorded.key_averages():
        if event.key.startswith("aten::"):
            times[event.key] += event.self_cpu_time_total / steps
    return times


def op_table(size: str, dropout: float, rounds: int, least: float = 0.005) -> str:
    """Ops of at least `least` of the host's step: share of it, ratio of densecore to the host."""
    steps = dict(zip(("cpu", "densecore"), build(case(size, dropout)), strict=True))
    samples = [{device: op_times(step) for device, step in steps.items()} for _ in range(rounds)]
    total = sum(sum(s["cpu"].values()) for s in samples)
    rows = [f"| {size}, dropout {dropout}: op | share of the host's step | densecore / cpu |", "|---|---:|---:|"]
    spent = {d: defaultdict(float) for d in steps}
    for sample in samples:
        for device, times in sample.items():
            for name, time in times.items():
                spent[device][name] += time
    for name, time in sorted(spent["cpu"].items(), key=lambda item: -item[1]):
        if time >= least * total:
            rows.append(f"| {name} | {time / total:.1%} | {spent['densecore'][name] / time:.2f} |")
    return "\n".join(rows)


def peak_memory() -> int:
    """Peak resident memory of this process in KiB. Linux's ru_maxrss would count the parent before exec too."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # macOS counts bytes


def memory_ratio() -> float:
    """densecore / cpu: peak resident memory of a process that runs three steps of block 256, above one that only imports torch."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import gpt_step, torch_densecore; torch_densecore.set_uncertified('host'); "
        "s = gpt_step.step_of('block 256', 0.2, sys.argv[2]) if sys.argv[2] != 'none' else (lambda: None); s(); s(); s(); "
        "print(gpt_step.peak_memory())"
    )
    run = lambda device: int(subprocess.check_output([sys.executable, "-c", program, str(Path(__file__).parent), device]))  # noqa: E731
    base, host, ours = (run(device) for device in ("none", "cpu", "densecore"))
    return (ours - base) / (host - base)


if __name__ == "__main__":
    options = parser("GPT training step")
    options.add_argument("--ops", action="store_true", help="each op's share and ratio")
    options.add_argument("--memory", action="store_true", help="peak memory")
    chosen = main("GPT training step", CASES, options)
    if chosen.ops:
        for size in SIZES:
            print(f"\n{op_table(size, 0.2, rounds=5)}")
    if chosen.memory:
        print(f"\npeak memory of a step (block 256), densecore / cpu: {memory_ratio():.3f}")
