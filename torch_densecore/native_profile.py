"""The part of a profile that the C++ kernels read."""

from __future__ import annotations

from typing import Any

from torch_densecore import blas_rules
from torch_densecore.profile import Profile


def native(profile: Profile) -> Any:
    """The `_C.Profile` of a profile."""
    from torch_densecore import _C

    return _C.Profile(threads=profile.threads, lanes=profile.lanes, blas=blas_rules.float32_rules(profile.blas))
