"""Where in the program an operator runs: module path, phase, step, source line, autograd node.

Backward operators are given the module and the source line of the forward call that they belong to. The link is
autograd's own sequence number: a node gets its number just before its operator is dispatched, so all numbers handed
out since the previous operator belong to the current one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

TORCH_DIR = str(Path(torch.__file__).parent)
OWN_DIR = str(Path(__file__).parent)
# frames of these folders are machinery, not the user's program
MACHINERY = (TORCH_DIR + os.sep, OWN_DIR + os.sep, "<frozen ", "<__array_function__")
MAX_SEQUENCE = 2_000_000  # forward calls remembered for a backward that may never come


class ModuleStack:
    """The path of the module that is running on a thread, from global forward hooks (no hook on any module or gradient)."""

    def __init__(self) -> None:
        self._running = threading.local()
        self._names: dict[int, str] = {}
        self._params: dict[int, str] = {}
        self._handles: list[Any] = []

    def start(self) -> None:
        self._handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def forget(self) -> None:
        """Forgets which modules run on this thread and what any is called."""
        self.path.clear()
        self._names.clear()
        self._params.clear()

    @property
    def path(self) -> list[str]:
        """The modules that run on this thread, outermost first."""
        try:
            return self._running.path
        except AttributeError:
            self._running.path = []
            return self._running.path

    @property
    def current(self) -> str:
        return self.path[-1] if self.path else ""

    def param_name(self, param: torch.Tensor) -> str:
        """Qualified name of a parameter of a module that has run, else ''."""
        return self._params.get(id(param), "")

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if not self.path:
            self._learn(module)
        name = self._names.get(id(module))
        if name is None:  # not a registered child: created or attached on the way
            name = f"{self.current}.({type(module).__name__})".lstrip(".")
        self.path.append(name)

    def _leave(self, module: torch.nn.Module, args: Any, result: Any) -> None:
        if self.path:
            self.path.pop()

    def _learn(self, root: torch.nn.Module) -> None:
        known = self._names.get(id(root))
        if known is not None and known.startswith("("):
            return
        for name, module in root.named_modules():
            self._names.setdefault(id(module), name or f"({type(root).__name__})")
        for name, param in root.named_parameters():
            self._params.setdefault(id(param), name)


class StepCounter:
    """Training steps and whether an optimizer is running, from torch's global optimizer hooks."""

    def __init__(self, on_step: Callable[[int], None]) -> None:
        self.step = 0
        self.optimizing = 0
        self._on_step = on_step
        self._calls: dict[int, int] = {}
        self._handles: list[Any] = []

    def start(self) -> None:
        self._handles = [
            register_optimizer_step_pre_hook(self._before),
            register_optimizer_step_post_hook(self._after),
        ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.optimizing += 1

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self.optimizing = max(0, self.optimizing - 1)
        calls = self._calls[id(optimizer)] = self._calls.get(id(optimizer), 0) + 1
        if calls > self.step:  # with several optimizers (GAN) the one that steps most counts
            self.step = calls
            self._on_step(calls)


class SourceLines:
    """`train.py:33 in step`: the innermost frame of the user's program."""

    def __init__(self) -> None:
        self._user_code: dict[CodeType, str | None] = {}

    def current(self, depth: int) -> str:
        """The line that is running, `depth` frames up from the caller or more; '' when no user frame is there."""
        frame: FrameType | None = sys._getframe(depth + 1)
        known = self._user_code
        while frame is not None:
            code = frame.f_code
            name = known[code] if code in known else self._learn(code)
            if name is not None:
                return f"{name}:{frame.f_lineno} in {code.co_name}"
            frame = frame.f_back
        return ""

    def _learn(self, code: CodeType) -> str | None:
        path = code.co_filename
        name = None if path.startswith(MACHINERY) or path == "<string>" else _short(path)
        self._user_code[code] = name
        return name


class ForwardCalls:
    """Sequence number of an autograd node -> (module path, source line) of the forward call."""

    def __init__(self) -> None:
        self._calls: dict[int, tuple[str, str]] = {}
        self._next = torch._C._autograd._get_sequence_nr()

    def note(self, module: str, source: str) -> None:
        """A forward operator is about to run: the numbers handed out since the last one are its own."""
        now = torch._C._autograd._get_sequence_nr()
        if now == self._next:
            return
        if now - self._next > 64:  # a thread's counter starts over or jumped: only the last number is ours
            self._next = now - 1
        for number in range(self._next, now):
            self._calls[number] = (module, source)
        self._next = now
        if len(self._calls) > MAX_SEQUENCE:
            self._calls.clear()

    def of(self, node: Any) -> tuple[str, str]:
        """Module path and source line of the forward call that created the node."""
        return self._calls.get(node._sequence_nr(), ("", ""))


def _short(path: str) -> str:
    """A path that is the same on two machines: relative to the script's folder, else the last two components."""
    try:
        relative = os.path.relpath(path, sys.path[0] or os.getcwd())
    except ValueError:  # another drive
        relative = ".."
    if not relative.startswith(".."):
        return relative.replace(os.sep, "/")
    return "/".join(Path(path).parts[-2:])
