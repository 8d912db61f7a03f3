"""Certificates: sweep our operators against the reference wheel and keep the outcome as data.

`compare`, `Call` and `Report` need the oracle's extra and are imported when first used; `summary` and `load` need nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .certificates import Certificate, load, load_all, summary

if TYPE_CHECKING:
    from .comparison import Call, Report, compare

__all__ = ["Call", "Certificate", "Report", "compare", "load", "load_all", "summary"]


def __getattr__(name: str) -> Any:
    if name not in ("Call", "Report", "compare"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import comparison

    return getattr(comparison, name)
