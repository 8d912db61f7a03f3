"""Random draws on the CPU that reach the device: their bits are this host's own, and the device says so.

Counting them takes a wrapper around six of torch's CPU kernels (csrc/aten/host_draws.h). A program that does not use the device
keeps torch's own kernels, so counting begins only when the program names the device.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# the device's name as a word of its own: --device=densecore, "densecore", torch.densecore; not torch_densecore or a folder
_NAME = re.compile(r"(?<![\w/\\-])densecore(?![\w/\\-])")


def program_names_device() -> bool:
    """Whether the command line or the main script has the device's name in it; True at a prompt or in a notebook."""
    if any(_NAME.search(word) for word in sys.orig_argv[1:]):
        return True
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None:
        return "-c" not in sys.orig_argv
    try:
        return _NAME.search(Path(file).read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return True


def apply() -> None:
    """Begins to count if the program names the device; else the device's first use does."""
    from torch_densecore import _C

    if program_names_device():
        _C.count_host_draws()


def accept_cpu_draws() -> None:
    """Regards all random draws made on the CPU so far as acceptable, though they used this host's own arithmetic."""
    from torch_densecore import _C

    _C.accept_host_draws()
