"""What the package costs CPU programs: installed but off, and with emulation on, both against torch alone.

    python benchmarks/emulate.py [--rounds N] [--markdown]

Each setting runs in a process of its own, in turn, round by round; the figures are medians over rounds of the ratio to torch alone
and of the difference in microseconds a call (CPU time, one thread).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent

# names no device, so that nothing is counted or emulated unless the environment says so
CHILD = """
import json, sys, time
import torch
if sys.argv[1] != "alone": import torch_densecore
torch.set_num_threads(1)
x, m, i = torch.rand(8), torch.rand(64, 64), torch.arange(8)
layer = torch.nn.Linear(16, 16)
def backward():
    layer(m[:, :16]).sum().backward()
calls = {
    "add, 8 elements": lambda: x + x, "mul, 8 elements": lambda: x * x, "index, 8 elements": lambda: x[i],
    "copy to int64, 8 elements": lambda: x.to(torch.int64), "mm, 64 x 64": lambda: m @ m, "exp, 4096 elements": lambda: m.exp(),
    "normal_, 4096 elements": lambda: m.normal_(), "linear and backward": backward,
}
found = {}
for name, call in calls.items():
    for _ in range(20): call()
    times = []
    for _ in range(25):
        start = time.process_time_ns()
        for _ in range(100): call()
        times.append((time.process_time_ns() - start) / 1e5)
    found[name] = min(times)
print(json.dumps(found))
"""
SETTINGS = {"alone": {}, "installed": {}, "emulated": {"DENSECORE_EMULATE_CPU": "all"}}


def child(setting: str) -> dict[str, float]:
    """Microseconds a call."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DENSECORE_")}
    environment |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **SETTINGS[setting]}
    done = subprocess.run([sys.executable, "-c", CHILD, setting], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    rounds = [{setting: child(setting) for setting in SETTINGS} for _ in tqdm(range(args.rounds), disable=None, leave=False)]
    bar = "|" if args.markdown else ""
    print(f"{bar} {'call':<28}{bar} {'off / torch alone':<24}{bar} {'emulated / torch alone':<24}{bar}")
    if args.markdown:
        print("|---|---:|---:|")
    for name in rounds[0]["alone"]:
        cells = []
        for setting in ("installed", "emulated"):
            ratio = statistics.median(r[setting][name] / r["alone"][name] for r in rounds)
            more = statistics.median(r[setting][name] - r["alone"][name] for r in rounds)
            cells.append(f"{ratio:.2f} ({more:+.2f} us)")
        print(f"{bar} {name:<28}{bar} {cells[0]:<24}{bar} {cells[1]:<24}{bar}")


if __name__ == "__main__":
    main()
