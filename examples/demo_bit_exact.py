"""50 steps of GPT training on `densecore`, each compared with what the reference wheel computes.

    python examples/demo_bit_exact.py                      compare with the certificate in the tree
    python examples/demo_bit_exact.py --live 0,1,49        also recompute these steps in the oracle, element by element
    python examples/demo_bit_exact.py --make-certificate   make the certificate anew (runs the wheel; needs torch_densecore[oracle])

The certificate comes from a run of the whole program in the reference wheel's own machine code, op by op: the loss's bits and a
digest of every gradient and parameter after each step, the initial weights, one evaluation and 200 sampled tokens. Beside it
stands the plain host CPU, element by element. Exit code 0: every bit agrees.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import json
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import xxhash
from tqdm import tqdm

import torch_densecore

sys.path.insert(0, str(Path(__file__).parent / "nanogpt"))
from gpt import GPT, Config  # noqa: E402
from train import Data  # noqa: E402

CERTIFICATE = Path(__file__).parent / "certificates" / "demo_gpt.json"
SEED, BATCH, STEPS, EVAL_BATCHES, TOKENS = 1337, 8, 50, 4, 200


def config(data: Data) -> Config:
    """0.1 million parameters, dropout on."""
    return Config(vocab=len(data.characters), block=64, layers=2, heads=2, width=64, dropout=0.2)


def bits(value: torch.Tensor) -> str:
    """A float32 scalar as hex."""
    return struct.pack(">f", value.item()).hex()


def digests(tensors: Iterable[torch.Tensor]) -> list[str]:
    """xxh3-64 of each tensor's bytes; the sign of zero counts."""
    return [xxhash.xxh3_64_hexdigest(t.detach().cpu().contiguous().numpy().tobytes()) for t in tensors]


def elements_off(ours: Iterable[torch.Tensor], theirs: Iterable[torch.Tensor]) -> int:
    """Elements whose bits differ."""
    pairs = ((a.detach().cpu().view(torch.int32), b.detach().cpu().view(torch.int32)) for a, b in zip(ours, theirs, strict=True))
    return sum(int((a != b).sum()) for a, b in pairs)


class Run:
    """The program on one device, with its own place in torch's default random stream."""

    def __init__(self, device: str, data: Data) -> None:
        self.device, self.data = device, data
        torch.manual_seed(SEED)
        self.model = GPT(config(data)).to(device)
        self.optimizer = self.model.optimizer()
        self.rng = torch.get_rng_state()

    @contextlib.contextmanager
    def stream(self):
        """Continues this run's random stream."""
        torch.set_rng_state(self.rng)
        yield
        self.rng = torch.get_rng_state()

    def parameters(self) -> list[torch.Tensor]:
        return list(self.model.parameters())

    def gradients(self) -> list[torch.Tensor]:
        return [p.grad for p in self.parameters()]

    def step(self) -> torch.Tensor:
        """One training step; the clipped gradients stay until the next one. Returns the loss."""
        with self.stream():
            self.optimizer.zero_grad(set_to_none=True)
            x, y = self.data.batch(BATCH, self.model.config.block, self.device)
            _, loss = self.model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(self) -> torch.Tensor:
        """The mean loss over a few batches without dropout."""
        self.model.eval()
        with self.stream():
            losses = [self.model(*self.data.batch(BATCH, self.model.config.block, self.device))[1] for _ in range(EVAL_BATCHES)]
            mean = torch.stack(losses).mean()
        self.model.train()
        return mean

    def sample(self) -> list[int]:
        """Tokens generated from token 0."""
        self.model.eval()
        with self.stream():
            start = torch.zeros((1, 1), dtype=torch.long, device=self.device)
            tokens = self.model.generate(start, TOKENS)[0, 1:].tolist()
        self.model.train()
        return tokens

    def twin(self, device: str) -> Run:
        """A copy on another device, at the same place."""
        run = copy.copy(self)
        run.device = device
        run.model = GPT(self.model.config).to(device)
        run.model.load_state_dict(self.model.state_dict())
        run.optimizer = run.model.optimizer()
        run.optimizer.load_state_dict(self.optimizer.state_dict())
        return run


def oracle_mode() -> Any:
    """Runs every op of a CPU program in the reference wheel."""
    from torch_densecore.oracle import Oracle
    from torch_densecore.oracle.mode import OracleMode

    return OracleMode(Oracle())


def make_certificate(steps: int) -> dict[str, Any]:
    """The program in the reference wheel."""
    data = Data()
    with oracle_mode() as mode:
        run = Run("cpu", data)
        certificate: dict[str, Any] = {"initial": digests(run.parameters()), "steps": []}
        for _ in tqdm(range(steps), desc="reference wheel"):
            loss = run.step()
            record = {"loss": bits(loss), "gradients": digests(run.gradients()), "parameters": digests(run.parameters())}
            certificate["steps"].append(record)
        certificate["evaluation"] = bits(run.evaluate())
        certificate["sample"] = run.sample()
    modelled = sorted(set().union(*mode.provenance.values()))
    oracle = mode.oracle
    about = {
        "profile": oracle.profile.name, "threads": oracle.num_threads, "wheel_sha256": oracle.wheel.sha256,
        "operators": dict(sorted(mode.counts.items())), "modelled": modelled, "config": dataclasses.asdict(run.model.config),
    }  # fmt: skip
    return {"about": about, **certificate}


def compare_live(run: Run) -> tuple[Run, torch.Tensor]:
    """The run's next step, computed by the reference wheel from the run's own state."""
    twin = run.twin("cpu")
    with oracle_mode():
        return twin, twin.step()


def report(label: str, *offs: int, host: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> None:
    """One line: what differs from the certificate; what the host's CPU has different from densecore, in elements."""
    line = f"{label:<26}" + " ".join(f"{name}={off}" for name, off in zip(names, offs, strict=True))
    if host:
        line += "   host cpu: " + " ".join(f"{name}={off}" for name, off in zip(names, host, strict=True))
    print(line)


def demo(steps: int, live: set[int], with_host: bool) -> int:
    """Runs and compares; returns how many things differ from the certificate."""
    certificate = json.loads(CERTIFICATE.read_text())
    steps = min(steps, len(certificate["steps"]))
    data = Data()
    with torch_densecore.emulate_cpu("random"):  # nanoGPT draws its initial weights on the CPU
        ours = Run("densecore", data)
    host = Run("cpu", data) if with_host else None
    torch_densecore.accept_cpu_draws()  # the host run draws its own weights; none of them reaches the device
    about = certificate["about"]
    print(f"reference {about['profile']}, {about['threads']} threads, wheel sha256 {about['wheel_sha256'][:16]}...")
    print(f"modelled there: {', '.join(about['modelled']) or 'nothing'}")
    print("differing: tensors against the certificate; elements between densecore and the host's CPU")
    wrong = _unequal(digests(ours.parameters()), certificate["initial"])
    report("initial weights", wrong, names=("params_off",),
           host=(elements_off(ours.parameters(), host.parameters()),) if host else ())
    names = ("lossdiff", "grads_off", "params_off")
    for index in range(steps):
        expected = certificate["steps"][index]
        reference = compare_live(ours) if index in live else None
        loss = ours.step()
        offs = (
            int(bits(loss) != expected["loss"]), _unequal(digests(ours.gradients()), expected["gradients"]),
            _unequal(digests(ours.parameters()), expected["parameters"]),
        )  # fmt: skip
        wrong += sum(offs)
        against: tuple[int, ...] = ()
        if host:
            host_loss = host.step()
            against = (int(bits(host_loss) != bits(loss)), *_elements(ours, host))
        report(f"step {index} loss {loss.item():.6f}", *offs, host=against, names=names)
        if reference:
            twin, twin_loss = reference
            found = (int(bits(twin_loss) != bits(loss)), *_elements(ours, twin))
            wrong += sum(found)
            report("  live, in elements", *found, names=names)
    if steps == len(certificate["steps"]):
        evaluation, sample = ours.evaluate(), ours.sample()
        tokens_off = sum(a != b for a, b in zip(sample, certificate["sample"], strict=True))
        offs = (int(bits(evaluation) != certificate["evaluation"]), tokens_off)
        wrong += sum(offs)
        report(f"evaluation {evaluation.item():.6f}, {TOKENS} tokens ", *offs, names=("lossdiff", "tokens_off"))
    print(f"{'bit for bit the reference' if wrong == 0 else f'{wrong} differences from the reference'}: {steps} steps")
    return wrong


def _unequal(ours: list[str], theirs: list[str]) -> int:
    return sum(a != b for a, b in zip(ours, theirs, strict=True))


def _elements(ours: Run, other: Run) -> tuple[int, int]:
    return elements_off(ours.gradients(), other.gradients()), elements_off(ours.parameters(), other.parameters())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--live", default="", metavar="STEPS", help="steps to recompute in the oracle, such as 0,1,49")
    parser.add_argument("--no-host", action="store_true", help="leave the host's CPU out")
    parser.add_argument("--make-certificate", action="store_true")
    args = parser.parse_args(argv)
    if args.make_certificate:
        text = json.dumps(make_certificate(args.steps), indent=0)
        CERTIFICATE.write_text(text + "\n")
        print(f"{CERTIFICATE}: {len(text)} characters")
        return 0
    live = {int(word) for word in args.live.split(",") if word}
    return int(demo(args.steps, live, not args.no_host) != 0)


if __name__ == "__main__":
    sys.exit(main())
