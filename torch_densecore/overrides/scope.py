"""What is in force: for the process, and for a thread within `override(...)`.

A context holds in the thread that entered it and in what torch starts for it: autograd's workers that run a backward called
within the context, and `torch.jit.fork`. Threads of Python's own (`threading`, data loaders) follow the process.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torch.utils._contextlib import context_decorator

from torch_densecore.overrides import check, modules, profiles, report
from torch_densecore.overrides.errors import OverriddenOpError, OverrideError
from torch_densecore.overrides.precedence import Choice, Layer, choices_by_op
from torch_densecore.overrides.rules import Rule, from_file, from_mapping, from_text, texts

Function = TypeVar("Function", bound=Callable[..., Any])

ENVIRONMENT = "DENSECORE_OVERRIDE"
# what `densecore run` hands down, also to the processes that the script starts
FLAGS, FILES = "DENSECORE_RUN_OVERRIDE", "DENSECORE_RUN_OVERRIDE_FILE"

_lock = threading.RLock()
_choices: dict[int, Choice] = {}  # by the tag that the extension knows them by, while their table lives
_tags = itertools.count()
_process: Any = None  # the table of the process
_observed: tuple[str, ...] = ()  # ops of whose calls the observers are told
observers: list[Callable[[str, list[Any], list[Any]], None]] = []
_OWN = str(Path(__file__).parent)


def build(layers: tuple[Layer, ...]) -> Any:
    """The `_C.OverrideTable` of these layers; it carries them as `layers`, and whether it needs to know the modules."""
    from torch_densecore import _C

    table = _C.OverrideTable()
    table.layers, table.needs_modules = layers, False
    tags: list[int] = []
    weakref.finalize(table, _forget, tags)
    for op, choices in choices_by_op(layers).items():
        table.add(op, [_native(op, choice, tags) for choice in choices])
        table.needs_modules |= any(choice.scopes or choice.mode == "check" for choice in choices)
    for op in _observed:
        table.add(op, [_C.OverrideChoice(scopes=[], mode="observe", reference="host", profile=None, counters=[], tag=0)])
    return table


def install(table: Any) -> None:
    """Puts the handlers of a table on the dispatcher's keys."""
    if table.needs_modules:
        modules.start()
    table.install()


def uninstall(table: Any) -> None:
    """Takes the handlers off again."""
    table.uninstall()
    if table.needs_modules:
        modules.stop()


def layers_in_force() -> tuple[Layer, ...]:
    """The rules that hold on this thread, weakest layer first."""
    from torch_densecore import _C

    own = _C.thread_overrides()
    if own is not None:
        return getattr(own, "layers", ())  # none: a worker has outlived its context
    return _process.layers if _process is not None else ()


def active() -> list[str]:
    """The overrides that hold on this thread, each with its source, weakest first."""
    return [text for layer in layers_in_force() for text in texts(layer)]


def apply(observed: tuple[str, ...] = ()) -> None:
    """Puts into force, for the process, what the environment asks for; called again, it replaces what it put before.

    The observers are told of every call of the ops `observed`.
    """
    from torch_densecore import _C

    global _process, _observed
    environment = os.environ.get(ENVIRONMENT, "")
    layers: list[list[Rule]] = [[], [], []]  # files, environment, command line
    for rule in from_text(environment, ENVIRONMENT):
        layers[1 if rule.source == ENVIRONMENT else 0].append(rule)
    for path in filter(None, os.environ.get(FILES, "").split(os.pathsep)):
        layers[0] += from_file(path)
    for rule in from_text(os.environ.get(FLAGS, ""), "--override"):
        layers[2 if rule.source == "--override" else 0].append(rule)
    with _lock:
        if _process is not None:
            uninstall(_process)
            report.forget(rule for layer in _process.layers for rule in layer)
            _process = None
        _observed = observed
        if any(layers) or observed:
            _process = build(tuple(layers))
            install(_process)
            report.watch(rule for layer in layers for rule in layer)
        _C.set_process_overrides(_process)


def attach() -> None:
    """Gives the extension what it calls back."""
    from torch_densecore import _C

    def compare(op: str, call: int, module: str, tag: int, *sides: Any) -> None:
        check.judge(_choices[tag], op, call, module, *sides)

    def refuse(op: str, tag: int) -> None:
        raise OverriddenOpError(f"{op} was called, which the override {_choices[tag].decided_by.described} forbids")

    def observe(op: str, arguments: list[Any], results: list[Any]) -> None:
        for observer in observers:
            observer(op, arguments, results)

    _C.attach_overrides(refuse=refuse, compare=compare, observe=observe)


class override:  # noqa: N801  (used like a function)
    """Computes chosen ops otherwise while the context lasts, or while the decorated function runs.

        with torch_densecore.override({"aten::mm": "host", "aten::native_layer_norm*": "check:oracle"}): ...
        with torch_densecore.override("mm=host,transformer.h.3.*:@blas=oracle"): ...
        with torch_densecore.override({"aten::sum": {"lanes": 8, "threads": 2}}): ...

    Modes: densecore, host, oracle, error, check:host, check:oracle (with :log, not to stop). A mapping sets profile fields for the
    op's kernel. Contexts nest: the inner one decides. Raises OverrideError (a ValueError) for an unknown op, mode or field.
    """

    def __init__(self, rules: Mapping[Any, Any] | str) -> None:
        source = _caller()
        self.rules = from_text(rules, source) if isinstance(rules, str) else from_mapping(rules, source)
        if not self.rules:
            raise OverrideError("override: no rule is given")
        self._entered = threading.local()
        self._built: tuple[tuple[Layer, ...], Any] = ((), None)  # the last table, and the layers that it lies upon

    def __enter__(self) -> override:
        from torch_densecore import _C

        table = self._table(layers_in_force())
        install(table)
        report.watch(self.rules)
        self._stack.append((_C.exchange_thread_overrides(table), table))
        report.entered(active)
        return self

    def __exit__(self, *exc: object) -> None:
        from torch_densecore import _C

        before, table = self._stack.pop()
        _C.exchange_thread_overrides(before)
        uninstall(table)

    def __call__(self, function: Function) -> Function:
        """Decorator for functions, generators and coroutines: in force while they run."""
        if not inspect.iscoroutinefunction(function):
            return context_decorator(lambda: self, function)

        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]

    @property
    def _stack(self) -> list[tuple[Any, Any]]:
        if not hasattr(self._entered, "stack"):
            self._entered.stack = []
        return self._entered.stack

    def _table(self, outer: tuple[Layer, ...]) -> Any:
        below, table = self._built
        if table is None or below is not outer:
            table = build((*outer, self.rules))
            self._built = (outer, table)
        return table


def _native(op: str, choice: Choice, tags: list[int]) -> Any:
    from torch_densecore import _C

    tags.append(next(_tags))
    _choices[tags[-1]] = choice
    return _C.OverrideChoice(
        scopes=list(choice.scopes), mode=choice.mode, reference=choice.decided_by.setting.reference,
        profile=profiles.slot(op, choice.fields), counters=[rule.counter for rule in choice.rules], tag=tags[-1],
    )  # fmt: skip


def _forget(tags: list[int]) -> None:
    for tag in tags:
        _choices.pop(tag, None)


def _caller() -> str:
    """`train.py:12` of the frame that wrote the override."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
