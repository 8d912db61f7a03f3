"""torch.optim's default implementation for densecore parameters: the one it chooses for CPU parameters.

torch.optim prefers its foreach loops on every device that `_get_foreach_kernels_supported_devices` names, and this backend is
named there; CPU parameters take the single-tensor loop. `clip_grad_norm_` is left alone: it uses foreach on the CPU too.
"""

from __future__ import annotations

import importlib

import torch
from torch.utils import _foreach_utils

# torch.optim hides its modules behind functions of the same name, so they are named as text
_READERS = ("torch.optim.optimizer", "torch.optim.swa_utils")


def _foreach_devices() -> list[str]:
    own = torch._C._get_privateuse1_backend_name()
    return [name for name in _foreach_utils._get_foreach_kernels_supported_devices() if name != own]


def apply() -> None:
    """Rebinds the list where torch.optim reads it."""
    for name in _READERS:
        importlib.import_module(name)._get_foreach_kernels_supported_devices = _foreach_devices
