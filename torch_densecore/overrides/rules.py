"""One override as it was written: where (module scope), which ops, what happens, and where it came from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_densecore import registry
from torch_densecore.overrides import opnames, settings
from torch_densecore.overrides.errors import OverrideError
from torch_densecore.overrides.opnames import Match
from torch_densecore.overrides.settings import Setting

_KEY = re.compile(r"(?:(?P<scope>[^:]+):(?!:))?(?P<op>.+)", re.DOTALL)


@dataclass(eq=False)
class Rule:
    """`scope:word=setting` from `source`. `counter` counts the calls that it decided, over all threads."""

    scope: str
    word: str
    setting: Setting
    source: str
    match: Match
    counter: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        scope = f"{self.scope}:" if self.scope else ""
        return f"{scope}{self.word}={self.setting}"

    @property
    def described(self) -> str:
        """With its source, for people."""
        return f"{self} ({self.source})"

    @property
    def hits(self) -> int:
        return self.counter.value


def rule(key: Any, value: Any, source: str) -> Rule:
    """One rule from the two sides of a `=`. Raises OverrideError, naming the rule and its source."""
    from torch_densecore import _C

    try:
        found = _KEY.fullmatch(_text_of(key))
        if not found:
            raise OverrideError("no op is named")
        word = found["op"].strip()
        setting = settings.parse(value)
        match = _heeding(opnames.match(word), word, setting)
        return Rule((found["scope"] or "").strip(), word, setting, source, match, _C.OverrideCounter())
    except OverrideError as error:
        shown = value if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else repr(value)
        raise OverrideError(f"override {_text_of(key)}={shown} ({source}): {error}") from None


def from_mapping(values: Mapping[Any, Any], source: str) -> list[Rule]:
    """Rules from `{"aten::mm": "host", "aten::sum": {"lanes": 8}}`."""
    return [rule(key, value, source) for key, value in values.items()]


def from_text(text: str, source: str, folder: Path | None = None) -> list[Rule]:
    """Rules from `mm=host,*softmax*=oracle,sum={lanes=8,threads=2},@file.toml`; `folder`: where relative files are."""
    rules: list[Rule] = []
    for item in _items(text):
        key, equals, value = item.partition("=")
        if equals:
            rules.append(rule(key.strip(), value.strip(), source))
        elif item.startswith("@"):
            rules += from_file((folder or Path()) / item[1:])
        else:
            raise OverrideError(f"override {item!r} ({source}): write op=mode, as in mm=host, or @file.toml")
    return rules


def from_file(path: str | Path) -> list[Rule]:
    """Rules from a TOML or YAML file that holds one mapping, as `override` takes it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OverrideError(f"cannot read the overrides in {path}: {error.strerror}") from error
    if path.suffix == ".toml":
        values = _toml(text, path)
    elif path.suffix in (".yaml", ".yml"):
        values = _yaml(text, path)
    else:
        raise OverrideError(f"{path}: an override file ends in .toml, .yaml or .yml")
    if not isinstance(values, dict):
        raise OverrideError(f"{path}: an override file holds one mapping of ops to modes")
    return from_mapping(values, str(path))


def _text_of(key: Any) -> str:
    """`aten::add.Tensor` for torch.ops.aten.add.Tensor, `aten::add` for torch.ops.aten.add; text as it is."""
    if isinstance(key, str):
        return key
    if hasattr(key, "_schema"):  # an overload
        return f"{key._schema.name}.{key._overloadname}"
    if hasattr(key, "_qualified_op_name"):
        return key._qualified_op_name
    raise OverrideError(f"an op is named by text or by an op of torch.ops, not by {key!r}")


def _heeding(match: Match, word: str, setting: Setting) -> Match:
    """Those of the ops that heed every field of the setting."""
    wanted = {name for name, _ in setting.fields}
    if wanted and os.environ.get("DENSECORE_KERNELS") == "off":
        raise OverrideError("with DENSECORE_KERNELS=off no kernel of ours runs that could heed a field of the profile")
    heeding = tuple(op for op in match.ops if wanted <= registry.get(op).fields)
    if wanted and not heeding:
        heeded = sorted(set().union(*(registry.get(op).fields for op in match.ops)))
        which = f"heeds {', '.join(heeded)}" if heeded else "heeds no field of the profile"
        raise OverrideError(f"{word} does not heed {', '.join(sorted(wanted))}: its kernel {which}")
    return Match(heeding, match.closeness) if wanted else match


def _items(text: str) -> Iterator[str]:
    """The parts between commas, semicolons and line ends that are not within braces."""
    depth, start = 0, 0
    for i, sign in enumerate([*text, ","]):
        depth += (sign == "{") - (sign == "}")
        if sign in ",;\n" and (depth <= 0 or i == len(text)):
            if item := text[start:i].strip():
                yield item
            start = i + 1


def _toml(text: str, path: Path) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            raise OverrideError(f"{path}: reading TOML on Python 3.10 needs tomli: pip install tomli") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OverrideError(f"{path}: {error}") from error


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise OverrideError(f"{path}: reading YAML needs PyYAML (pip install pyyaml); TOML needs nothing") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise OverrideError(f"{path}: {error}") from error


def texts(rules: Iterable[Rule]) -> list[str]:
    """The rules with their sources, for people and for records."""
    return [one.described for one in rules]
