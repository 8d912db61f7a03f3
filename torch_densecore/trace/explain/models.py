"""The candidate models of a call, by operator. Each family of operators has its file in `families`.

Two sides are explained by the traits in which the models that reproduce them differ.
"""

from __future__ import annotations

import torch

from ..replay import Call
from .families import activation, attention, conversion, norm, normalization, pointwise, products, random, softmax, sums
from .model import Family, Model, base_of

FAMILIES: dict[str, Family] = {
    **sums.FAMILIES,
    **norm.FAMILIES,
    **normalization.FAMILIES,
    **softmax.FAMILIES,
    **products.FAMILIES,
    **attention.FAMILIES,
    **activation.FAMILIES,
    **pointwise.FAMILIES,
    **conversion.FAMILIES,
    **random.FAMILIES,
}
ANY_DTYPE = tuple(conversion.FAMILIES)


def candidates(call: Call) -> list[Model]:
    """All models for the call's operator; [] when the family is not known or the dtype is not float32."""
    base = base_of(call)
    family = FAMILIES.get(base)
    if family is None:
        return []
    if base not in ANY_DTYPE and any(t.is_floating_point() and t.dtype != torch.float32 for t in call.inputs):
        return []
    try:
        return list(family(call))
    except (IndexError, KeyError, ValueError, TypeError):  # arguments in a form that the family does not handle
        return []
