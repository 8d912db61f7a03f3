"""The part of a profile that the C++ kernels read."""

from __future__ import annotations

from typing import Any

from torch_densecore import blas_rules
from torch_densecore.profile import CONTRACTIONS, EXPONENTIALS, LANE_JOINS, LIBMS, Profile


def native(profile: Profile, *, always_variant: bool = False) -> Any:
    """The `_C.Profile` of a profile. `always_variant`: the variant kernels serve it also where the certified ones could."""
    from torch_densecore import _C

    return _C.Profile(
        threads=profile.threads,
        lanes=profile.lanes,
        fma=profile.fma,
        contract=CONTRACTIONS.index(profile.contract),
        lane_join=LANE_JOINS.index(profile.lane_join),
        exp=EXPONENTIALS.index(profile.exp),
        libm=LIBMS.index(profile.libm["name"]),
        blas=blas_rules.float32_rules(profile.blas),
        largest=blas_rules.largest(profile.blas),
        saturating_casts=profile.casts == "saturate",
        always_variant=always_variant,
    )
