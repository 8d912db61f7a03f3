"""Small programs that the tests record."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).parents[2]

TRAIN = '''
import sys
import torch

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = torch.nn.Sequential(torch.nn.Linear(33, 17), torch.nn.LayerNorm(17), torch.nn.GELU(), torch.nn.Linear(17, 3))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    loss = model(torch.randn(5, 33)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
'''


class Net(nn.Module):
    """A little of everything: convolution, batch norm, attention, dropout, embedding, in-place operators."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.rnn, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.conv(x)), inplace=True).transpose(1, 2)
        x, _ = self.rnn(self.mix(x))
        return F.log_softmax(self.head(x[:, -1]), -1)


def train(steps: int = 2) -> list[torch.Tensor]:
    """Trains `Net` from a fixed seed; returns its parameters, buffers and gradients."""
    torch.manual_seed(7)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.nll_loss(net(torch.randn(6, 4, 9)), torch.randint(5, (6,)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    return [*net.state_dict().values(), *(p.grad for p in net.parameters()), torch.rand(3)]


def densecore(*words: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command as a user would, from this source tree."""
    import os

    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    command = [sys.executable, "-m", "torch_densecore.cli", *words]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, check=False)


def script(folder: Path, text: str = TRAIN) -> Path:
    """Writes a program to record."""
    path = folder / "train.py"
    path.write_text(text)
    return path


def run_traced(path: Path, body: Callable[[], object], **options: object) -> Path:
    """Records what `body` does."""
    from torch_densecore.trace import record

    with record(path, **options):
        body()
    return path


def rewrite(source: Path, target: Path, change: Callable[[Any], Any]) -> None:
    """The trace again with every line's value changed, and right checksums; tensors stay as they are."""
    data, crc, out, place = source.read_bytes(), 0, [], 0
    while place < len(data):
        end = data.index(b"\n", place)
        value = json.loads(data[place:end].rpartition(b"\t")[0])
        place, blob = end + 1, b""
        if isinstance(value, dict) and "tensors" in value:
            blob = data[place : place + value["tensors"]["bytes"] + 1]
            place += len(blob)
        text = json.dumps(change(value), separators=(",", ":")).encode()
        crc = zlib.crc32(blob[:-1], zlib.crc32(text, crc))
        out.append(b"%b\t%08x\n%b" % (text, crc, blob))
    target.write_bytes(b"".join(out))
