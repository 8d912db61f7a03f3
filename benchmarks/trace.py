"""What recording costs and how fast traces are compared.

    python benchmarks/trace.py record     # ratio to an unrecorded training step, measured in turn
    python benchmarks/trace.py diff       # two traces of 10**6 operator calls: seconds and peak memory

The model is a GPT of block 256, batch 8, 6 layers, 6 heads, 384 wide (10.7 M parameters), training step with AdamW.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from torch_densecore.trace.format import TraceWriter
from torch_densecore.trace.recorder import record

BLOCK, BATCH, LAYERS, HEADS, WIDTH, VOCABULARY = 256, 8, 6, 6, 384, 65


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(self.ln_1(x)).split(WIDTH, 2)
        q, k, v = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class Gpt(nn.Module):
    """The usual decoder: token and position embeddings, blocks, a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.ln_f(self.blocks(self.tokens(x) + self.positions(torch.arange(BLOCK))))
        return F.cross_entropy((h @ self.tokens.weight.t()).view(-1, VOCABULARY), y.view(-1))


def recording_cost(rounds: int) -> None:
    """Steps with and without recording, A B A B, in wall-clock and in CPU time."""
    torch.manual_seed(0)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step() -> None:
        x, y = torch.randint(VOCABULARY, (2, BATCH, BLOCK))
        model(x, y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def timed() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        return time.perf_counter() - wall, time.process_time() - cpu

    step()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            plain = timed()
            with record(Path(folder, "run.dct")) as recorder:
                step()  # the first recorded step also describes every operator
                recorded = timed()
            ratios.append([b / a for a, b in zip(plain, recorded, strict=True)])
            print(f"wall {ratios[-1][0]:.3f}, CPU {ratios[-1][1]:.3f}, {recorder.events // 2} calls a step", flush=True)
    wall, cpu = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"median of {rounds}: recording costs {wall:.2f} x in wall-clock time, {cpu:.2f} x in CPU time")


def write_synthetic(path: Path, calls: int, changed_from: int) -> None:
    """A trace of `calls` calls at 2000 sites in 100 steps; outputs differ from call `changed_from` on."""
    writer = TraceWriter(path, 0)
    writer.write({"environment": {}})
    meta = {"dtype": "float32", "shape": [4, 64, 128], "stride": [8192, 128, 1], "device": "cpu"}
    for site in range(2000):
        writer.write({
            "site": site, "op": f"aten::op{site % 40}", "module": f"h.{site % 12}.mlp", "phase": "forward",
            "source": f"model.py:{site}", "args": [[{"$": 0}, {"$": 1}], {}], "inputs": [meta, meta], "outputs": [meta],
        })  # fmt: skip
    for i in range(calls):
        if i % (calls // 100) == 0:
            writer.write({"step": i * 100 // calls})
        tag = "b" if i >= changed_from else "a"
        before = "b" if i > changed_from else "a"  # the first input is what the previous call made
        ins = f'"{max(i - 1, 0):031x}{before}","{i:031x}c"'
        writer.write_text(f'[{i},{i % 2000},[{ins}],["{i:031x}{tag}"],["AAAAAAAAAAA{tag}AAAA"],null]')
    writer.write({"end": {"status": "complete", "events": calls}})
    writer.close()


def diff_speed(calls: int) -> None:
    """`densecore diff` of two synthetic traces, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a.dct"), Path(folder, "b.dct")
        write_synthetic(a, calls, calls)
        write_synthetic(b, calls, calls // 2)
        size = a.stat().st_size / calls
        begin = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "torch_densecore.cli", "diff", str(a), str(b)], capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(done.stdout[-900:], done.stderr)
    print(f"{calls} calls ({size:.0f} bytes each): {seconds:.1f} s ({usage.ru_utime:.1f} s CPU), "
          f"{usage.ru_maxrss / (1 << 20):.2f} GiB, exit code {done.returncode}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "diff"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10**6)
    chosen = parser.parse_args()
    if chosen.what == "record":
        recording_cost(chosen.rounds)
    else:
        diff_speed(chosen.calls)
