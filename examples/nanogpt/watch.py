"""Runs a training script, unmodified, and writes digests of the weights and gradients of every optimizer step.

    densecore run --emulate-cpu -- watch.py cpu.json train.py --device=cpu
    densecore run -- watch.py densecore.json train.py --device=densecore
    python watch.py --oracle wheel.json train.py --device=cpu         op by op in the reference wheel's own machine code

torch.optim's own hooks tell when an optimizer steps; the script knows nothing of it. Words after the script are the script's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import xxhash
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _disable_current_modes


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """xxh3-128 of the bytes of all tensors, in order."""
    state = xxhash.xxh3_128()
    with _disable_current_modes():
        for tensor in tensors:
            state.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return state.hexdigest()


class Watch:
    """What the optimizers of the process saw: weights and gradients before every step, weights and state after the last one."""

    def __init__(self) -> None:
        self.steps: list[dict[str, str]] = []
        self.optimizer: Optimizer | None = None
        self.hooks = (register_optimizer_step_pre_hook(self._before), register_optimizer_step_post_hook(self._after))

    def _parameters(self, optimizer: Optimizer) -> list[torch.Tensor]:
        return [p for group in optimizer.param_groups for p in group["params"]]

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        parameters = self._parameters(optimizer)
        gradients = [p.grad for p in parameters if p.grad is not None]
        self.steps.append({"weights": digest(parameters), "gradients": digest(gradients)})

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.optimizer = optimizer

    def result(self) -> dict[str, Any]:
        """The record: one entry a step, the end, and the random stream's state."""
        record: dict[str, Any] = {"steps": self.steps, "random": digest([torch.get_rng_state()])}
        if self.optimizer is not None:
            state = [v for p in self._parameters(self.optimizer) for v in self.optimizer.state[p].values() if torch.is_tensor(v)]
            record["end"] = {"weights": digest(self._parameters(self.optimizer)), "optimizer": digest(state)}
        return record


@contextlib.contextmanager
def reference_wheel(about: dict[str, Any]):
    """Every op of the block runs in the wheel; `about` is told which ones, and what was modelled."""
    from torch_densecore.oracle import Oracle
    from torch_densecore.oracle.mode import OracleMode

    with OracleMode(Oracle()) as mode:
        yield
    oracle = mode.oracle
    about.update(
        profile=oracle.profile.name, threads=oracle.num_threads, wheel_sha256=oracle.wheel.sha256,
        operators=dict(sorted(mode.counts.items())), modelled=sorted(set().union(*mode.provenance.values())),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", action="store_true", help="run every op in the reference wheel (slow)")
    parser.add_argument("out", type=Path)
    parser.add_argument("script", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    about: dict[str, Any] = {}
    sys.argv = args.script
    sys.path[0] = os.path.dirname(os.path.abspath(args.script[0]))
    watch = Watch()
    with reference_wheel(about) if args.oracle else contextlib.nullcontext():
        runpy.run_path(args.script[0], run_name="__main__")
    args.out.write_text(json.dumps({"about": about, **watch.result()}, indent=0) + "\n")


if __name__ == "__main__":
    main()
