"""Tells the extension which module is running. Its hooks are there only while an override with a module scope, or a check, is."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

_lock = threading.Lock()
_users = 0


@cache
def _hooks() -> Any:
    from torch_densecore import _C
    from torch_densecore.trace.context import ModuleStack

    class Hooks(ModuleStack):
        def _enter(self, module: Any, args: Any) -> None:
            super()._enter(module, args)
            _C.set_module_path(self.current)

        def _leave(self, module: Any, args: Any, result: Any) -> None:
            super()._leave(module, args, result)
            _C.set_module_path(self.current)

    return Hooks()


def start() -> None:
    """Tracks modules until `stop`; users nest."""
    from torch_densecore import _C

    global _users
    with _lock:
        _users += 1
        _C.track_modules(True)
        if _users == 1:
            _hooks().start()


def stop() -> None:
    """Ends what `start` began."""
    from torch_densecore import _C

    global _users
    with _lock:
        _users -= 1
        _C.track_modules(False)
        if _users == 0:
            _hooks().stop()
            _hooks().forget()
