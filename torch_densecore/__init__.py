"""Apple Silicon's PyTorch bits, on any machine: the device `densecore`.

`import torch` loads this package by its `torch.backends` entry point. Without the compiled extension (pure-Python install, or a
torch other than the one it was built for) the package still imports, and its recording and oracle tools work.
"""

from __future__ import annotations


def _autoload() -> None:
    """The `torch.backends` entry point: importing this package has registered the device."""


import torch  # noqa: E402, F401  (after _autoload: torch's autoload calls back into this half-imported package)

from torch_densecore import _device  # noqa: E402
from torch_densecore.draws import accept_cpu_draws  # noqa: E402
from torch_densecore.emulate import emulate_cpu  # noqa: E402
from torch_densecore.overrides import override  # noqa: E402
from torch_densecore.strictness import UncertifiedOpError, get_uncertified, set_uncertified, uncertified  # noqa: E402

__all__ = [
    "UncertifiedOpError",
    "accept_cpu_draws",
    "emulate_cpu",
    "get_uncertified",
    "override",
    "set_uncertified",
    "uncertified",
]

_device.register()
