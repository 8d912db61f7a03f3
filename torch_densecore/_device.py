"""Registers the device with torch: name, extension, device module `torch.densecore`, registry, profile."""

from __future__ import annotations

import importlib.util
import os
import warnings

import torch

from torch_densecore import arithmetic
from torch_densecore.profile import Profile


def unsupported(profile: Profile) -> str | None:
    """Why no kernel can follow a profile, or None. The oracle runs other releases; single ops are `arithmetic.plan`'s matter."""
    if profile.torch == arithmetic.RELEASE or os.environ.get("DENSECORE_KERNELS") == "off":
        return None
    return (
        f"device 'densecore': the kernels reproduce torch {arithmetic.RELEASE}, but profile {profile.name!r} names torch "
        f"{profile.torch}. Ways on: another DENSECORE_PROFILE; `densecore oracle`, which runs that release's own wheel"
    )


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
    from torch_densecore import _module, draws, emulate, native_profile, optim_defaults, overrides, profile, registry, strictness

    torch._register_device_module("densecore", _module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    registry.apply()
    strictness.apply()
    optim_defaults.apply()
    draws.apply()
    emulate.apply()
    overrides.attach()

    def follow(current: Profile) -> None:
        _C.set_profile(native_profile.native(current))
        _C.refuse_allocations(unsupported(current) or "")
        if os.environ.get("DENSECORE_KERNELS") != "off":
            arithmetic.apply(current)

    profile.subscribe(follow)
    overrides.apply()  # last: it reads the profile
