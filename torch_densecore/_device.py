"""Registers the device with torch and provides the device module `torch.densecore`."""

from __future__ import annotations

import importlib.util
import warnings

import torch


def register() -> None:
    """Names the backend and loads the extension; does nothing the second time, or where there is no extension."""
    if torch._C._get_privateuse1_backend_name() == "densecore":
        return
    if importlib.util.find_spec("torch_densecore._C") is None:
        return
    try:
        from torch_densecore import _C  # noqa: F401
    except ImportError as error:
        warnings.warn(
            f"torch_densecore: the extension does not load into torch {torch.__version__}, so device 'densecore' is not "
            f"available ({error}). It is built for one torch release; build it again with `pip install .`",
            stacklevel=2,
        )
        return
    from torch_densecore import _module

    torch.utils.rename_privateuse1_backend("densecore")
    torch._register_device_module("densecore", _module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
