"""Named reference profiles: which machine's bits are reproduced.

A `Profile` names the torch release, the system, the models of the two closed libraries (BLAS and libm, kept as data in
`profiles/`) and the number of intra-op threads. It decides chunk boundaries and therefore bits; the host's own thread
count never does. `DENSECORE_PROFILE` chooses the profile of a process: a built-in name or the path of a JSON file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

DEFAULT = "torch-2.13.0-macos-arm64"
RELEASES = ("2.4", "2.14")  # first and last minor release whose wheels the oracle has run
_FOLDER = Path(__file__).parent / "profiles"
_NAME = re.compile(r"torch-(\d+\.\d+\.\d+)-macos-arm64")
_SYSTEM = "macos-arm64"
_PROBED_SYSTEM = re.compile(r"(linux|windows|macos)-\w+")  # of a profile that `densecore probe` wrote

# Values of the fields of arithmetic, in the order of their C++ counterparts (csrc/numerics/profile.h). The defaults are the Mac's.
LANES = (4, 8, 16)
CONTRACTIONS = ("none", "clang", "gcc")
LANE_JOINS = ("halves", "adjacent", "in_order")
EXPONENTIALS = ("sleef_u10", "exp_u20", "libm")
CASTS = ("saturate", "x86")
LIBMS = ("apple", "glibc")


class ProfileError(ValueError):
    """A profile that is unknown, malformed or outside what can be reproduced."""


@cache
def model(kind: str, name: str) -> dict[str, Any]:
    """A model table shipped with the package; `kind` is "blas" or "libm"."""
    path = _FOLDER / kind / f"{name}.json"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in (_FOLDER / kind).glob("*.json")))
        raise ProfileError(f"unknown {kind} model {name!r}; known: {known}")
    return json.loads(path.read_text(encoding="utf-8"))


def lanes_of(release: str) -> int:
    """Floats in one Vectorized<float> of the macOS arm64 wheel: 4 (NEON) since torch 2.6, 8 before."""
    major, minor = (int(part) for part in release.split(".")[:2])
    return 4 if (major, minor) >= (2, 6) else 8


@dataclass(frozen=True)
class Profile:
    """The reference whose bits are reproduced.

    torch: release of the reference wheel. threads: intra-op threads of the reference machine (4 on the base M1..M4).
    lanes: floats per Vectorized<float>. fma: whether multiply-adds that the source asks for are fused. contract: which
    other products and sums the compiler fuses: clang those in scalar code, gcc those in vector code too. lane_join: in which order
    a vector's lanes are added. exp: the exponential of vector code. casts: what becomes of a float out of an integer
    type's range. blas, libm: model tables (see `profiles/`).

    ops: for a probed machine, fields by op ("aten::sum*": {"lanes": 8}), as one build mixes them; {"unknown": reason} for
    an op whose arithmetic the probe could not tell. See docs/profiles.md for which op heeds which field.
    """

    name: str = DEFAULT
    torch: str = "2.13.0"
    system: str = _SYSTEM
    threads: int = 4
    lanes: int = 4
    fma: bool = True
    contract: str = "clang"
    lane_join: str = "halves"
    exp: str = "sleef_u10"
    casts: str = "saturate"
    blas: dict[str, Any] = field(default_factory=lambda: model("blas", "accelerate"), hash=False, repr=False)
    libm: dict[str, Any] = field(default_factory=lambda: model("libm", "apple"), hash=False, repr=False)
    ops: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.torch):
            raise ProfileError(f"profile {self.name}: torch must be a release such as 2.13.0, not {self.torch!r}")
        if self.system != _SYSTEM and not (self.ops and _PROBED_SYSTEM.fullmatch(str(self.system))):
            raise ProfileError(
                f"profile {self.name}: system {self.system!r} is not {_SYSTEM}, and there are no 'ops' that say how it computes; "
                "`densecore probe` writes such a profile"
            )
        if not isinstance(self.threads, int) or not 1 <= self.threads <= 1024:
            raise ProfileError(f"profile {self.name}: threads must be 1..1024, not {self.threads!r}")
        for name, values in CHOICES.items():
            if getattr(self, name) not in values or isinstance(getattr(self, name), bool) != isinstance(values[0], bool):
                allowed = ", ".join(map(str, values))
                raise ProfileError(f"profile {self.name}: {name} must be one of {allowed}, not {getattr(self, name)!r}")
        for kind, key in (("blas", "rules"), ("libm", "functions")):
            if key not in getattr(self, kind):
                raise ProfileError(f"profile {self.name}: the {kind} model has no {key!r}")
        if self.libm["name"] not in LIBMS:
            raise ProfileError(f"profile {self.name}: libm must be one of {', '.join(LIBMS)}, not {self.libm['name']!r}")

    @property
    def probed(self) -> bool:
        """Whether it describes a probed machine: ops that it does not list are not known."""
        return bool(self.ops)

    def replace(self, **changes: Any) -> Profile:
        """A copy with other fields; `blas` and `libm` may be given by name."""
        return dataclasses.replace(self, **_with_models(changes))

    def describe(self) -> dict[str, Any]:
        """Short JSON form that every recorded result carries; models by name."""
        out = {key: getattr(self, key) for key in ("name", "torch", "system", "threads", *CHOICES)}
        models = {"blas": self.blas["name"], "libm": self.libm["name"]}
        return {**out, **models, **({"ops": "probed"} if self.probed else {})}

    def to_json(self) -> str:
        """Complete JSON form, models included; `load` reads it."""
        return json.dumps(dataclasses.asdict(self), indent=2)


# The fields that have a choice of values.
CHOICES: dict[str, tuple[Any, ...]] = {
    "lanes": LANES, "fma": (True, False), "contract": CONTRACTIONS, "lane_join": LANE_JOINS, "exp": EXPONENTIALS,
    "casts": CASTS,
}  # fmt: skip


def _with_models(values: dict[str, Any]) -> dict[str, Any]:
    """The values with models given by name replaced by their tables."""
    named = {kind: model(kind, values[kind]) for kind in ("blas", "libm") if isinstance(values.get(kind), str)}
    return {**values, **named}


def from_dict(data: dict[str, Any]) -> Profile:
    """A profile from JSON data: missing fields take the release's values; a model may be a name or a table."""
    known = {f.name for f in dataclasses.fields(Profile)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ProfileError(f"unknown profile field {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    values = dict(data)
    release = values.setdefault("torch", "2.13.0")
    if not isinstance(release, str) or not re.fullmatch(r"\d+\.\d+\.\d+", release):
        raise ProfileError(f"torch must be a release such as 2.13.0, not {release!r}")
    values.setdefault("name", f"torch-{release}-{_SYSTEM}")
    values.setdefault("lanes", lanes_of(release))
    return Profile(**_with_models(values))


def load(source: str | os.PathLike[str] | Profile | None = None) -> Profile:
    """A profile by name (`torch-2.13.0-macos-arm64`, or just `2.13.0`), by path of a JSON file, or the default."""
    if isinstance(source, Profile):
        return source
    text = os.fspath(source) if source is not None else DEFAULT
    found = _NAME.fullmatch(text)
    release = found.group(1) if found else text if re.fullmatch(r"\d+\.\d+\.\d+", text) else None
    if release:
        return from_dict({"torch": release})
    path = Path(text)
    if not path.is_file():
        raise ProfileError(f"no profile {text!r}: give torch-<release>-{_SYSTEM}, a release, or the path of a JSON file")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return from_dict(data["profile"] if "densecore_probe" in data else data)  # a probe's file holds a profile
    except json.JSONDecodeError as error:
        raise ProfileError(f"{path}: not a JSON profile: {error}") from error


_current: Profile | None = None
_listeners: list[Callable[[Profile], None]] = []


def current() -> Profile:
    """The profile of this process: the one set last, else `DENSECORE_PROFILE`, else the default."""
    global _current
    if _current is None:
        _current = load(os.environ.get("DENSECORE_PROFILE") or None)
    return _current


def set_current(profile: str | os.PathLike[str] | Profile) -> Profile:
    """Make a profile current and tell the subscribers."""
    global _current
    _current = load(profile)
    for listener in _listeners:
        listener(_current)
    return _current


def subscribe(listener: Callable[[Profile], None]) -> None:
    """Call `listener` with the current profile now and with every later one (the extension keeps its copy this way)."""
    _listeners.append(listener)
    listener(current())


@contextlib.contextmanager
def use(profile: str | os.PathLike[str] | Profile | None = None, **changes: Any) -> Iterator[Profile]:
    """Context manager: another profile, or the current one with some fields changed, as in `use(threads=8)`."""
    before = current()
    try:
        yield set_current(load(profile if profile is not None else before).replace(**changes))
    finally:
        set_current(before)
