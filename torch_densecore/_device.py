"""Registers the device with torch: name, extension, device module `torch.densecore`, registry, profile."""

from __future__ import annotations

import importlib.util
import warnings

import torch


def register() -> None:
    """Does nothing the second time, or where there is no extension."""
    if torch._C._get_privateuse1_backend_name() == "densecore":
        return
    if importlib.util.find_spec("torch_densecore._C") is None:
        return
    try:
        from torch_densecore import _C
    except ImportError as error:
        warnings.warn(
            f"torch_densecore: the extension does not load into torch {torch.__version__}, so device 'densecore' is not "
            f"available ({error}). It is built for one torch release; build it again with `pip install .`",
            stacklevel=2,
        )
        return
    torch.utils.rename_privateuse1_backend("densecore")
    from torch_densecore import _module, blas_rules, emulate, optim_defaults, profile, registry, strictness

    torch._register_device_module("densecore", _module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    registry.apply()
    strictness.apply()
    optim_defaults.apply()
    emulate.apply()
    profile.subscribe(lambda current: _C.set_profile(current.threads, current.lanes, blas_rules.float32_rules(current.blas)))
