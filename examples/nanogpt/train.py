"""Trains the small GPT of gpt.py on generated text, checkpoints it, and prints a sample.

    python examples/nanogpt/train.py --device densecore --steps 200 --dropout 0.2
    python examples/nanogpt/train.py --resume checkpoint.pt --steps 400

Ctrl-C stops after writing a checkpoint. A checkpoint is replaced in one step, so it is whole at any time.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import Any

import torch
from corpus import make
from gpt import GPT, Config
from torch import Tensor
from tqdm import tqdm

import torch_densecore  # noqa: F401  (an installed package is loaded by torch itself; a checkout is not)


class Data:
    """The corpus as tokens; batches are drawn on the CPU from torch's default stream."""

    def __init__(self) -> None:
        text = make()
        self.characters = sorted(set(text))
        index = {c: i for i, c in enumerate(self.characters)}
        self.tokens = torch.tensor([index[c] for c in text])

    def batch(self, size: int, block: int, device: str) -> tuple[Tensor, Tensor]:
        """Inputs and targets (size, block)."""
        starts = torch.randint(len(self.tokens) - block, (size,)).tolist()
        x = torch.stack([self.tokens[i : i + block] for i in starts])
        y = torch.stack([self.tokens[i + 1 : i + 1 + block] for i in starts])
        return x.to(device), y.to(device)

    def text(self, tokens: Tensor) -> str:
        return "".join(self.characters[i] for i in tokens.tolist())


def save(path: Path, state: dict[str, Any]) -> None:
    """Writes a file beside `path` and renames it over `path`."""
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def train(args: argparse.Namespace) -> list[float]:
    """Trains to `args.steps` and returns the losses of this run."""
    torch.manual_seed(args.seed)
    data = Data()
    checkpoint = torch.load(args.resume, map_location=args.device, weights_only=True) if args.resume else None
    if checkpoint:
        config = Config(**checkpoint["config"])
    else:
        config = Config(
            vocab=len(data.characters), block=args.block, layers=args.layers, heads=args.heads, width=args.width,
            dropout=args.dropout, bias=args.bias, flash=not args.no_flash,
        )  # fmt: skip
    with torch.device(args.device):  # the weights are drawn there, not on the host's CPU
        model = GPT(config)
    optimizer = model.optimizer()
    first = 0
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        torch.set_rng_state(checkpoint["rng"].cpu())
        first = checkpoint["step"]
    losses: list[float] = []

    def state() -> dict[str, Any]:
        return {
            "config": dataclasses.asdict(config), "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "step": first + len(losses), "rng": torch.get_rng_state(),
        }  # fmt: skip

    try:
        for _ in (bar := tqdm(range(first, args.steps), disable=args.quiet)):
            x, y = data.batch(args.batch, config.block, args.device)
            _, loss = model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            bar.set_postfix(loss=f"{losses[-1]:.4f}")
    except KeyboardInterrupt:
        print(f"interrupted at step {first + len(losses)}")
    finally:
        save(args.out, state())
    if args.sample:
        model.eval()
        start = torch.zeros((1, 1), dtype=torch.long, device=args.device)
        print(data.text(model.generate(start, args.sample)[0]))
    return losses


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="densecore")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--block", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--no-flash", action="store_true")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--sample", type=int, default=200, metavar="TOKENS", help="tokens to sample at the end (0: none)")
    parser.add_argument("--resume", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--out", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser.parse_args(argv)


if __name__ == "__main__":
    history = train(parse())
    if history:
        print(f"first loss {history[0]!r}, last loss {history[-1]!r}")
