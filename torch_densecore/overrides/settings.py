"""What an override does to an op: the words after the `=`.

    densecore            as without an override
    host                 this machine's CPU kernel
    oracle               the reference wheel's own code (slow)
    error                raises
    check:host           ours, compared with the host's (or check:oracle); raises at the first differing element
    check:oracle:log     the same, but logs it and goes on
    {lanes=8,threads=2}  ours under a profile with other fields; with "mode=check:host" compared as well
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch_densecore import profile, registry
from torch_densecore.overrides.errors import OverrideError

MODES = ("densecore", "host", "oracle", "error", "check")
REFERENCES = ("host", "oracle")
ACTIONS = ("stop", "log")
RUN_OURS = (None, "densecore", "check")  # modes in which a profile's fields have an effect


@dataclass(frozen=True)
class Setting:
    """Parsed. `mode` None: only fields are given, and the mode is densecore; `reference`, `stop`: of mode check."""

    mode: str | None = None
    reference: str = "host"
    stop: bool = True
    fields: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        mode = self.mode
        if mode == "check":
            mode = f"check:{self.reference}" + ("" if self.stop else ":log")
        if not self.fields:
            return mode or "{}"
        pairs = ([("mode", mode)] if mode else []) + list(self.fields)
        return "{" + ", ".join(f"{name}={_name_of(value)}" for name, value in pairs) + "}"


def parse(value: Any) -> Setting:
    """A setting from text, from a mapping of profile fields (and "mode"), or as it is. Raises OverrideError."""
    if isinstance(value, Setting):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(value)
    if not isinstance(value, str):
        raise OverrideError(f"an override is a mode such as 'host' or a mapping of profile fields, not {value!r}")
    text = value.strip()
    if text.startswith("{") and text.endswith("}"):
        return _from_mapping(dict(_pair(word) for word in text[1:-1].split(",") if word.strip()))
    return _mode(text)


@cache
def fields() -> tuple[str, ...]:
    """The profile's fields that some op heeds."""
    return tuple(sorted({name for op in registry.load().values() for name in op.fields}))


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean a, b?`, or a full stop."""
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    return f"; did you mean {', '.join(close)}?" if close else "."


def _mode(text: str) -> Setting:
    mode, *details = text.split(":")
    if mode not in MODES:
        raise OverrideError(f"unknown mode {text!r}{near(mode, MODES)} Modes: {', '.join(MODES[:-1])}, check:host, check:oracle")
    if mode != "check":
        if details:
            raise OverrideError(f"mode {mode!r} takes nothing after a colon, but {text!r} is given")
        return Setting(mode)
    if not details:
        raise OverrideError("check compares with another mode: write check:host or check:oracle")
    reference, *actions = details
    action = actions[0] if actions else "stop"
    if reference not in REFERENCES or action not in ACTIONS or len(actions) > 1:
        forms = [f"check:{r}{a}" for r in REFERENCES for a in ("", *(f":{action}" for action in ACTIONS))]
        close = near(text, forms)
        raise OverrideError(f"unknown check {text!r}{close} Checks: check:host, check:oracle, each with :log or :stop")
    return Setting("check", reference, action == "stop")


def _from_mapping(values: Mapping[str, Any]) -> Setting:
    given = dict(values)
    setting = _mode(str(given.pop("mode"))) if "mode" in given else Setting()
    for name in given:
        if name not in fields():
            raise OverrideError(f"unknown profile field {name!r}{near(name, fields())} Fields: {', '.join(fields())}, and mode")
    if given and setting.mode not in RUN_OURS:
        raise OverrideError(f"fields of the profile change our kernel, which mode {setting.mode!r} does not run")
    if not given and setting.mode is None:
        raise OverrideError("an empty override: name a mode or a profile field")
    try:
        given |= {kind: profile.model(kind, given[kind]) for kind in ("blas", "libm") if isinstance(given.get(kind), str)}
        profile.current().replace(**given)
    except profile.ProfileError as error:
        raise OverrideError(f"{error}") from error
    return dataclasses.replace(setting, fields=tuple(sorted(given.items(), key=lambda item: item[0])))


def _pair(word: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in word.partition("="))
    if not equals or not value:
        raise OverrideError(f"{word.strip()!r} is no field: write {{lanes=8,threads=2}}")
    return name, {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)


def _name_of(value: Any) -> str:
    """A model table by its name, other values as text."""
    if isinstance(value, dict):
        return str(value.get("name", "..."))
    return str(value).lower() if isinstance(value, bool) else str(value)
