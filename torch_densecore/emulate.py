"""Our kernels on `device="cpu"`: chosen ops give the reference's bits on CPU tensors too.

    with torch_densecore.emulate_cpu("random"): ...     # while the context lasts
    @torch_densecore.emulate_cpu("random")              # while the function runs
    torch_densecore.emulate_cpu("random")               # from here on
    DENSECORE_EMULATE_CPU=random python train.py        # the whole process

"random" is what a `--device=densecore` run needs for weights that are drawn on the CPU; a list of ops or groups takes over these
and leaves all others alone. "all", the default, serves the CPU as the device is served: by our kernels, by torch's own where the
registry says `exact`, and where neither is certified under `DENSECORE_UNCERTIFIED`.

Off by default: no op of the CPU is touched. The kernels are put on torch's CPU dispatch key for the whole process, all threads, and
torch's own come back exactly when the last user leaves.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import threading
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
from torch.utils._contextlib import context_decorator

from torch_densecore import arithmetic, profile, registry
from torch_densecore._device import unsupported

Function = TypeVar("Function", bound=Callable[..., Any])

ALL = ("all", "1")

def available() -> list[str]:
    """Ops that can be emulated on the CPU one by one: those with a kernel of ours, by full name."""
    from torch_densecore import _C

    return sorted(name for name, device_only in _C.own_kernels() if not device_only)


def groups() -> dict[str, list[str]]:
    """The registry's groups of ops (families and kinds of arithmetic), those with a kernel of ours."""
    members: dict[str, list[str]] = {}
    for name in available():
        for group in registry.get(name).groups:
            members.setdefault(group, []).append(name)
    return members


def _matches(word: str, known: list[str]) -> list[str]:
    """The ops that a word names: one ("aten::add.Tensor", "add.Tensor"), all overloads ("add"), or a pattern ("*softmax*")."""
    pattern = word if "::" in word else f"aten::{word}"
    found = [name for name in known if fnmatchcase(name, pattern)]
    return found or [name for name in known if fnmatchcase(name, f"{pattern}.*")]


def resolve(words: tuple[str, ...]) -> list[str] | None:
    """The ops that `words` name, or None for all. Raises ValueError for a word that names nothing we have a kernel for."""
    current = profile.current()
    if reason := unsupported(current):
        raise profile.ProfileError(reason.replace("device 'densecore'", "emulate_cpu"))
    if current.probed or arithmetic.differences(current):
        raise profile.ProfileError(f"emulate_cpu: only the device follows a profile with another arithmetic ({current.name!r})")
    known, by_group = available(), groups()
    names: dict[str, None] = {}
    everything = False
    for word in words:
        bare = word.removeprefix("@")
        everything = everything or bare in ALL
        found = by_group.get(bare, []) if word.startswith("@") or bare == "random" else _matches(word, known)
        if not found and bare not in ALL:
            raise ValueError(_unknown(word, known, list(by_group)))
        names.update(dict.fromkeys(found))
    return None if everything else list(names)


def _unknown(word: str, known: list[str], groups: list[str]) -> str:
    names = [name.removeprefix("aten::") for name in known] + [f"@{group}" for group in groups]
    near = difflib.get_close_matches(word.removeprefix("aten::"), names, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else "."
    return (
        f"torch_densecore: nothing to emulate for {word!r}: this build has no such kernel{hint} "
        f"Groups: all, {', '.join(f'@{group}' for group in sorted(groups))}; ops: see `densecore coverage --tier kernel`"
    )


class emulate_cpu:  # noqa: N801  (used like a function)
    """Serves the CPU's tensors by our kernels, for the ops named; see the module's text.

    Acts at once, as torch.set_grad_enabled does: a bare call stays in force until `restore()`, `with` ends it at the block's end,
    and a decorator ends it there and then and starts it again around each call of the function. Nests, and serves all threads.
    Raises ValueError for a word that names no kernel of ours.
    """

    def __init__(self, *words: str) -> None:
        self.words = words or ("all",)
        self.ops = resolve(self.words)
        self._lock = threading.Lock()
        self._called = True  # started by the call itself, and not taken over by `with` yet
        _start(self.ops)

    def _take_over(self) -> bool:
        with self._lock:
            called, self._called = self._called, False
        return called

    def restore(self) -> None:
        """Ends what a bare call started. Does nothing the second time."""
        if self._take_over():
            _stop(self.ops)

    def __enter__(self) -> emulate_cpu:
        if not self._take_over():
            _start(self.ops)
        return self

    def __exit__(self, *exc: object) -> None:
        _stop(self.ops)

    def __call__(self, function: Function) -> Function:
        """Decorator for functions, generators and coroutines: in force while they run."""
        self.restore()
        if not inspect.iscoroutinefunction(function):
            return context_decorator(lambda: emulate_cpu(*self.words), function)

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with emulate_cpu(*self.words):
                return await function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


def _start(ops: list[str] | None) -> None:
    from torch_densecore import _C

    _C.look_for_draws()
    if ops is not None:
        return _C.emulate_on_cpu(ops)
    _C.emulate_all_on_cpu()
    _refusal.start()


def _stop(ops: list[str] | None) -> None:
    from torch_densecore import _C

    if ops is None or "aten::normal_" in ops:
        _C.forget_draws()
    if ops is not None:
        return _C.restore_cpu_kernels(ops)
    _refusal.stop()
    _C.restore_all_cpu_kernels()


class _Refusal:
    """Inductor refuses to compile while all ops are emulated: it generates arithmetic of its own, which no dispatcher sees."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own: Any = None

    def start(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._own = torch._TorchCompileInductorWrapper.__call__
                torch._TorchCompileInductorWrapper.__call__ = _refuse_inductor

    def stop(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                torch._TorchCompileInductorWrapper.__call__ = self._own


def _refuse_inductor(*args: object, **kwargs: object) -> Any:
    raise NotImplementedError(
        "torch.compile's inductor backend generates arithmetic of its own, whose bits are not the reference's, so it is not "
        "supported under emulate_cpu. Run uncompiled (nanoGPT: --compile=False) or use "
        'torch.compile(..., backend="eager") or backend="aot_eager"'
    )


_refusal = _Refusal()


def emulated() -> list[str]:
    """The ops that our kernels serve on the CPU at this moment."""
    from torch_densecore import _C

    return sorted(_C.emulated_ops())


def summary() -> str:
    """What is emulated, in words: "all", ops by name, or nothing. Traces store it."""
    from torch_densecore import _C

    return "all" if _C.emulating_all_on_cpu() else " ".join(emulated())


def apply() -> None:
    """Does what the environment variable DENSECORE_EMULATE_CPU asks for."""
    words = os.environ.get("DENSECORE_EMULATE_CPU", "").replace(",", " ").split()
    if words and words != ["0"]:
        emulate_cpu(*words)
