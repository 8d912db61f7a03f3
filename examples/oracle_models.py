"""Three models that use more than the certified ops, trained on `densecore` with every op exact.

    python examples/oracle_models.py                 convnet, LSTM and a transformers model: 5 steps each
    python examples/oracle_models.py --only lstm --steps 20
    python examples/oracle_models.py --no-check      without the second run, op by op in the reference wheel

DENSECORE_UNCERTIFIED=oracle (set here) sends each op that has neither a kernel nor a certificate to the reference wheel. For
each model: the losses, what served its ops, what was modelled, and whether the losses, gradients and parameters have the bits
of the same program run op by op in the wheel. Exit code 0: all have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torch_densecore
from torch_densecore import strictness
from torch_densecore.oracle import Oracle
from torch_densecore.oracle.mode import OracleMode
from torch_densecore.oracle.report import Report

sys.path.insert(0, str(Path(__file__).parent))
from demo_bit_exact import bits, digests  # noqa: E402

SEED = 7


class ConvNet(nn.Module):
    """A stem, a residual block that halves the image, mean pooling, a linear layer."""

    def __init__(self, channels: int = 8, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2 * channels), nn.ReLU(),
            nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, bias=False), nn.BatchNorm2d(2 * channels),
        )  # fmt: skip
        self.skip = nn.Sequential(nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False), nn.BatchNorm2d(2 * channels))
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.stem(images)
        x = F.relu(self.body(x) + self.skip(x))
        return F.cross_entropy(self.head(F.max_pool2d(x, 2).mean((2, 3))), labels)


class CharLSTM(nn.Module):
    """Two layers with dropout between them, predicting the next symbol."""

    def __init__(self, symbols: int = 30, width: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, symbols)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.head(self.lstm(self.embedding(tokens))[0])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class TinyLlama(nn.Module):
    """transformers' Llama with two layers: rotary positions, grouped queries, RMS norm, SwiGLU."""

    def __init__(self, symbols: int = 30) -> None:
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM

        self.model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=symbols, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=64,
            )  # fmt: skip
        )

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def images() -> tuple[Tensor, Tensor]:
    """A batch for the convnet."""
    return torch.randn(6, 3, 16, 16), torch.randint(5, (6,))


def text() -> tuple[Tensor, Tensor]:
    """A batch for the language models."""
    tokens = torch.randint(30, (4, 13))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


@dataclass(frozen=True)
class Program:
    """A model, its data and its optimizer."""

    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]


PROGRAMS = {
    "convnet": Program(ConvNet, images, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)),
    "lstm": Program(CharLSTM, text, lambda p: torch.optim.Adam(p, lr=3e-3)),
    "transformers": Program(TinyLlama, text, lambda p: torch.optim.AdamW(p, lr=3e-3, weight_decay=0.1)),
}


@dataclass
class Outcome:
    """The bits of a run, after every step."""

    losses: list[str]
    gradients: list[list[str]]
    parameters: list[list[str]]
    values: list[float]


def train(program: Program, device: str, steps: int) -> Outcome:
    """Train from the same seed; weights, data and dropout masks come from torch's default stream."""
    torch.manual_seed(SEED)
    model = program.model().to(device)
    parameters = list(model.parameters())
    optimizer = program.optimizer(parameters)
    out = Outcome([], [], [], [])
    for _ in range(steps):
        inputs, targets = program.batch()
        optimizer.zero_grad(set_to_none=True)
        loss = model(inputs.to(device), targets.to(device))
        loss.backward()
        optimizer.step()
        out.losses.append(bits(loss.detach()))
        out.gradients.append(digests(p.grad for p in parameters if p.grad is not None))
        out.parameters.append(digests([*parameters, *model.buffers()]))
        out.values.append(loss.item())
    return out


def on_device(program: Program, steps: int) -> tuple[Outcome, Report]:
    """Train on `densecore`; what the program draws on the CPU has the reference's bits too."""
    report = Report()
    with strictness.uncertified("oracle"), torch_densecore.emulate_cpu("random"), report:
        return train(program, "densecore", steps), report


def in_wheel(program: Program, steps: int, oracle: Oracle) -> tuple[Outcome, OracleMode]:
    """Train a CPU program with every op in the reference wheel."""
    with OracleMode(oracle) as mode:
        return train(program, "cpu", steps), mode


def differences(ours: Outcome, theirs: Outcome) -> int:
    """Losses and tensors whose bits differ."""
    count = sum(a != b for a, b in zip(ours.losses, theirs.losses, strict=True))
    for left, right in ((ours.gradients, theirs.gradients), (ours.parameters, theirs.parameters)):
        count += sum(a != b for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True))
    return count


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", choices=sorted(PROGRAMS), help="one of the models")
    parser.add_argument("--no-check", action="store_true", help="do not run the program in the wheel, op by op")
    args = parser.parse_args(argv)
    oracle, wrong = None if args.no_check else Oracle(), 0
    for name in [args.only] if args.only else PROGRAMS:
        ours, report = on_device(PROGRAMS[name], args.steps)
        print(f"{name}: loss {ours.values[0]:.6f} -> {ours.values[-1]:.6f} in {args.steps} steps")
        print("\n".join(report.lines()))
        print(f"modelled: {', '.join(sorted(report.modelled())) or 'nothing'}")
        if oracle is not None:
            theirs, mode = in_wheel(PROGRAMS[name], args.steps, oracle)
            off = differences(ours, theirs)
            wrong += off
            modelled = ", ".join(sorted(set().union(*mode.provenance.values())))
            print(f"against the wheel, op by op: {off} losses and tensors differ; modelled there: {modelled or 'nothing'}")
    return int(wrong != 0)


if __name__ == "__main__":
    raise SystemExit(main())
