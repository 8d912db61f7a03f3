"""Overrides that no call ever met are named when the process ends: a misspelt module scope is found that way."""

from __future__ import annotations

import atexit
import multiprocessing
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from torch_densecore.overrides.rules import Rule

_lock = threading.RLock()  # a rule may be collected while it is held
_live: weakref.WeakSet[Rule] = weakref.WeakSet()
_hits: dict[str, int] = {}  # of the rules that are gone, and 0 for every rule that was ever in force
_silent = False
listeners: list[Callable[[list[str]], None]] = []  # told what is in force when a context has been entered (recordings)


def watch(rules: Iterable[Rule]) -> None:
    """Reports these rules at exit, unless a call meets them."""
    _report_at_exit()
    with _lock:
        for rule in rules:
            if rule not in _live:
                _live.add(rule)
                _hits.setdefault(rule.described, 0)
                weakref.finalize(rule, _gone, rule.described, rule.counter)


def forget(rules: Iterable[Rule]) -> None:
    """Does not report these rules."""
    with _lock:
        for rule in rules:
            _live.discard(rule)
            _hits.pop(rule.described, None)


def silence() -> None:
    """Nothing is reported: this process runs no program."""
    global _silent
    _silent = True


def entered(active: Callable[[], list[str]]) -> None:
    """A context has been entered."""
    if listeners:
        now = active()
        for listener in listeners:
            listener(now)


def never_hit() -> list[str]:
    """The overrides that no call has met so far. Equal rules from one source count as one."""
    with _lock:
        hits = dict(_hits)
        for rule in _live:
            hits[rule.described] = hits.get(rule.described, 0) + rule.hits
    return [text for text, count in hits.items() if count == 0]


def _gone(described: str, counter: Any) -> None:
    with _lock:
        if described in _hits:
            _hits[described] += counter.value


@cache
def _report_at_exit() -> None:
    atexit.register(_report)


def _report() -> None:
    if _silent or multiprocessing.parent_process() is not None:
        return
    for text in never_hit():
        print(f"densecore: override {text} was never hit", file=sys.stderr)
