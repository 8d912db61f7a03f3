"""Shared fixtures. The device is the one under test: without the compiled extension its tests are an error, not a skip."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

import torch_densecore


@pytest.fixture(autouse=True)
def fresh_modes() -> Iterator[None]:
    """Every test starts and ends with the default strictness, a fixed seed and no pending CPU draws."""
    if torch._C._get_privateuse1_backend_name() != "densecore":
        yield
        return
    torch_densecore.set_uncertified("host")
    torch.manual_seed(0)
    torch_densecore.accept_cpu_draws()
    yield
    torch_densecore.set_uncertified("host")


@pytest.fixture
def python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python arguments` in a process of its own with extra environment variables.

    One OpenMP thread by default: on a busy machine a second one mostly waits for its turn.
    """

    def run(*arguments: str, timeout: float = 600, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        defaults = {"DENSECORE_UNCERTIFIED": "host", "OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [sys.executable, *arguments],
            env={**defaults, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
            capture_output=True, text=True, timeout=timeout,
        )  # fmt: skip
        assert not check or result.returncode == 0, f"{arguments}\n{result.stdout}\n{result.stderr}"
        return result

    return run
