"""Certificates: sweep our operators against the reference wheel and keep the outcome as data."""

from .compare import Call, Report, compare

__all__ = ["Call", "Report", "compare"]
