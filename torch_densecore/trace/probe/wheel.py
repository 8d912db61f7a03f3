"""Probing the emulated macOS arm64 wheel instead of this machine's torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from . import functions


@contextlib.contextmanager
def oracle_ops() -> Iterator[None]:
    """While it lasts torch's CPU operators are the reference wheel's, with the default profile's threads and libm."""
    from torch_densecore import profile
    from torch_densecore.oracle import LibmModel, Oracle
    from torch_densecore.oracle.mode import OracleMode

    reference = profile.load()
    model, threads = LibmModel(table=reference.libm), torch.get_num_threads()

    def expf(x: np.ndarray) -> np.ndarray:
        return np.array([model.call("expf", float(value)) for value in x.ravel()], np.float32).reshape(x.shape)

    torch.set_num_threads(reference.threads)  # what the probe takes for the probed machine's
    try:
        with functions.library(reference.libm["name"], expf), OracleMode(Oracle(reference)):
            yield
    finally:
        torch.set_num_threads(threads)
