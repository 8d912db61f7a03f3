"""Arguments for probes, made of integers alone: the same on every machine."""

from __future__ import annotations

import numpy as np
import torch


def small_values(*shape: int) -> torch.Tensor:
    """Values in (-2, 2) from a fixed integer sequence: no generator and no library function takes part."""
    with np.errstate(over="ignore"):  # SplitMix64
        z = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    return torch.from_numpy(((words.astype(np.float32) - np.float32(2**23)) * np.float32(2.0**-22)).reshape(shape))
