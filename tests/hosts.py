"""The hosts that this machine can play: instruction-set levels and thread counts, which may not change a bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_densecore import _C

LEVELS = ("default", "avx2", "avx512")


def every_host(threads: tuple[int, ...] = (1, 2)) -> Iterator[str]:
    """Sets each level that the CPU has with each thread count, yields its name, and restores the settings at the end."""
    before, best = torch.get_num_threads(), _C.isa()
    try:
        for level in LEVELS:
            try:
                _C.set_isa(level)
            except ValueError:  # above this CPU
                continue
            for count in threads:
                torch.set_num_threads(count)
                yield f"{level}, {count} threads"
    finally:
        torch.set_num_threads(before)
        _C.set_isa(best)


def assert_same_on_every_host(run: Callable[[], Any]) -> None:
    """`run()` returns tensors, or a nested list of them; every bit must be the same on every host."""
    expected = None
    for host in every_host():
        result = [t.detach().cpu().contiguous().numpy().tobytes() for t in torch.utils._pytree.tree_leaves(run())]
        if expected is None:
            expected, first = result, host
        assert result == expected, f"{host} differs from {first}"
