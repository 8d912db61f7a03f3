"""Whole training runs: the host's bits without our kernels, resume, sampling, interruption."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "nanogpt"
SMALL = ("--layers=2", "--heads=2", "--width=32", "--block=32", "--batch=4", "--quiet", "--sample=0")
HOST = {"DENSECORE_KERNELS": "off"}  # the device without kernels gives the host's own bits


def train(python: Any, out: Path, *options: str, **env: str) -> dict[str, Any]:
    python(str(EXAMPLE / "train.py"), *SMALL, f"--out={out}", *options, **env)
    return torch.load(out, map_location="cpu", weights_only=True)


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("options", [("--dropout=0.2", "--bias"), ("--no-flash",), ()], ids="-".join)
def test_without_kernels_50_steps_equal_the_cpus(python: Any, tmp_path: Path, options: tuple[str, ...]) -> None:
    cpu = train(python, tmp_path / "cpu.pt", "--device=cpu", "--steps=50", *options)
    own = train(python, tmp_path / "own.pt", "--device=densecore", "--steps=50", *options, **HOST)
    assert_same(cpu, own)  # weights, moments, step and the random state


def test_resume_continues_bit_for_bit(python: Any, tmp_path: Path) -> None:
    whole = train(python, tmp_path / "whole.pt", "--steps=16", "--dropout=0.2")
    train(python, tmp_path / "half.pt", "--steps=8", "--dropout=0.2")
    resumed = train(python, tmp_path / "rest.pt", "--steps=16", f"--resume={tmp_path / 'half.pt'}")
    assert_same(whole, resumed)


def test_the_loss_falls_and_a_sample_is_printed(python: Any, tmp_path: Path) -> None:
    result = python(str(EXAMPLE / "train.py"), *SMALL, "--steps=60", "--sample=40", f"--out={tmp_path / 'c.pt'}")
    first, last = (float(word) for word in result.stdout.splitlines()[-1].replace("first loss ", "").split(", last loss "))
    assert last < first - 0.5
    assert len(result.stdout) > 60


def test_ctrl_c_leaves_a_loadable_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "checkpoint.pt"
    command = [sys.executable, "-c", INTERRUPTED, str(EXAMPLE), str(out)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DENSECORE_UNCERTIFIED": "host"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("training"):
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(60) == 0 and "interrupted at step" in rest, rest
    state = torch.load(out, map_location="cpu", weights_only=True)
    assert 0 < state["step"] < 100_000 and all(torch.isfinite(value).all() for value in state["model"].values())


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored
sys.path.insert(0, sys.argv[1])
import train, torch
batch = train.Data.batch
def announce(self, *args):
    train.Data.batch = batch
    print("training", flush=True)
    return batch(self, *args)
train.Data.batch = announce
options = "--layers=2 --heads=2 --width=32 --block=32 --batch=4 --quiet --sample=0 --steps=100000".split()
train.train(train.parse([*options, "--out", sys.argv[2]]))
"""
