"""Which rule decides a call: from rules to the choices that the extension follows.

1. The inner context beats the outer one, a context the command line, that the environment, that a file.
2. Within one of these, a rule with a module scope beats one without, and an exact path beats a pattern.
3. Then the closer name: overload (`add.Tensor`), op (`add`), pattern (`*add*`), group (`@pointwise`).
4. Then the later rule.

A rule that gives only profile fields takes other fields from the rules below it, down to the first that names a mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch_densecore.overrides.rules import Rule

Layer = Sequence[Rule]  # rules of one source; later layers beat earlier ones


@dataclass(frozen=True)
class Choice:
    """What happens to a call within all of `scopes`: the mode of `decided_by`, our kernel under `fields`."""

    scopes: tuple[str, ...]
    mode: str
    decided_by: Rule
    fields: tuple[tuple[str, Any], ...]
    rules: tuple[Rule, ...]  # that took part


def choices_by_op(layers: Sequence[Layer]) -> dict[str, list[Choice]]:
    """For every op that a rule concerns, the choices in the order in which they are tried."""
    ranked: dict[str, list[tuple[tuple[int, ...], Rule]]] = {}
    for depth, layer in enumerate(layers):
        for position, rule in enumerate(layer):
            rank = (depth, _scope_closeness(rule.scope), rule.match.closeness, position)
            for op in rule.match.ops:
                ranked.setdefault(op, []).append((rank, rule))
    return {op: list(_choices([rule for _, rule in sorted(found, key=_rank, reverse=True)])) for op, found in ranked.items()}


def _rank(pair: tuple[tuple[int, ...], Rule]) -> tuple[int, ...]:
    return pair[0]


def _scope_closeness(scope: str) -> int:
    return 0 if not scope else 1 if any(sign in scope for sign in "*?[") else 2


def _choices(rules: list[Rule], taken: tuple[Rule, ...] = (), scopes: tuple[str, ...] = ()) -> Iterator[Choice]:
    """`rules`: the candidates left, best first. `taken`: rules of fields that the call is known to match, with their scopes."""
    if not rules:
        if taken:
            yield _choice(scopes, taken, "densecore")
        return
    first, rest = rules[0], rules[1:]
    conditional = bool(first.scope) and first.scope not in scopes
    inside = (*scopes, first.scope) if conditional else scopes
    if first.setting.mode is None:
        yield from _choices(rest, (*taken, first), inside)
    elif not taken:
        yield _choice(inside, (first,), first.setting.mode)
    else:  # its mode is beaten by the fields; its own fields are the last to be taken
        yield _choice(inside, (*taken, first) if first.setting.fields else taken, "densecore")
    if conditional:
        yield from _choices(rest, taken, scopes)


def _choice(scopes: tuple[str, ...], taken: tuple[Rule, ...], mode: str) -> Choice:
    fields: dict[str, Any] = {}
    for rule in taken:
        for name, value in rule.setting.fields:
            fields.setdefault(name, value)
    return Choice(scopes, mode, taken[0], tuple(sorted(fields.items(), key=lambda item: item[0])), taken)
