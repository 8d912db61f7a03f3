"""Why do two runs differ? Record every operator of two runs, find the first that differs, say why.

    with torch_densecore.trace.record("mac.dct"):
        train()

Recording and comparing are pure Python, need no compiled extension and work with stock torch >= 2.4 on any device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .comparison import compare as compare
    from .errors import TraceError as TraceError
    from .format import TraceReader as TraceReader
    from .format import validate as validate
    from .recorder import record as record

_HOMES = {
    "record": "recorder",
    "TraceReader": "format",
    "validate": "format",
    "compare": "comparison",
    "TraceError": "errors",
}


def __getattr__(name: str) -> Any:
    """Imports a tool when it is first used: comparing does not need what recording needs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
