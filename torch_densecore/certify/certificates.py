"""Certificates as data: what each operator was swept with and how many elements were off (none).

All of them are in `torch_densecore/certificates.json`, a line each. An entry exists only for a sweep in which nothing differed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "certificates.json"
MODES = ("quick", "full", "exhaustive")


@dataclass(frozen=True)
class Certificate:
    """One sweep of one operator and dtype.

    mode: "quick", "full" or "exhaustive" (every bit pattern). inputs: cases tried (argument sets). elements: result
    elements compared. both_raised: cases in which both sides raised. provenance: modelled functions that results depended
    on; empty means Apple's own arithmetic. shard: "i/n" for a part of a sweep. passes: how an exhaustive sweep laid the
    patterns out (families.py), each pass with all of them.
    """

    op: str
    dtype: str
    mode: str
    inputs: int
    elements: int
    off: int
    both_raised: int
    pure_inputs: int
    provenance: list[str]
    profile: dict[str, Any]
    wheel_sha256: str
    shard: str = ""
    threads: list[int] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        """What a newer entry replaces."""
        return self.dtype, self.mode, self.shard

    def text(self) -> str:
        """Short form for tables."""
        modelled = "" if not self.provenance else f", modelled: {', '.join(self.provenance)}"
        part = f", shard {self.shard}" if self.shard else ""
        return f"{self.dtype} {self.mode}: {self.elements:,} elements, {self.off} off{modelled}{part}"


def load_all(path: Path = FILE) -> Iterator[Certificate]:
    """Every certificate of a file, by operator."""
    for certificates in _by_operator(path).values():
        yield from certificates


def load(op: str, path: Path = FILE) -> list[Certificate]:
    """Certificates of an operator; none when it has no entry."""
    return list(_by_operator(path).get(op, ()))


def _by_operator(path: Path) -> dict[str, list[Certificate]]:
    if not path.is_file():
        return {}
    state = path.stat()
    return _parse(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _parse(path: Path, changed: int, size: int) -> dict[str, list[Certificate]]:
    data = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[Certificate]] = {}
    for entry in data["certificates"]:
        certificate = Certificate(**data["references"][entry.pop("reference")], **entry)
        found.setdefault(certificate.op, []).append(certificate)
    return found


def summary(op: str, path: Path = FILE) -> str:
    """Dtypes, modes and elements compared, for `densecore coverage`; empty when there is no certificate."""
    best: dict[str, Certificate] = {}
    for certificate in load(op, path):
        known = best.get(certificate.dtype)
        if known is None or certificate.elements > known.elements:
            best[certificate.dtype] = certificate
    return "; ".join(f"{dtype} {best[dtype].mode} {best[dtype].elements:,}" for dtype in sorted(best))


def store(new: Certificate, path: Path = FILE) -> None:
    """Put a certificate in place of an older one of the same dtype, mode and shard; complete sets of shards are merged.

    A full sweep also takes the place of a quick one, whose inputs are among its own.
    """
    if new.off:
        raise ValueError(f"{new.op} {new.dtype}: {new.off} elements are off, which is no certificate")

    if path == FILE and (active := new.profile.get("overrides")):
        raise ValueError(f"{new.op}: swept under overrides ({', '.join(active)}), which is no certificate of the kernel")

    def add(entries: list[Certificate]) -> list[Certificate]:
        kept = [c for c in entries if c.key != new.key] + [new]
        whole = {c.dtype for c in kept if c.mode == "full" and not c.shard}
        return _merged([c for c in kept if c.mode != "quick" or c.dtype not in whole])

    _change(new.op, add, path)


def withdraw(op: str, dtype: str, path: Path = FILE) -> None:
    """Remove every certificate of an operator and dtype, after a sweep that found a difference."""
    _change(op, lambda entries: [c for c in entries if c.dtype != dtype], path)


_SHARED = ("profile", "wheel_sha256")  # what nearly all certificates have in common, written once


def _change(op: str, change: Callable[[list[Certificate]], list[Certificate]], path: Path) -> None:
    """Rewrite one operator's entries; sweeps in other processes wait for their turn."""
    from ..oracle import cache  # who only reads certificates need not have the oracle's extra

    with cache.locked("certificates"):
        every = {**_by_operator(path), op: change(load(op, path))}
        references: list[dict[str, Any]] = []
        lines = []
        for name in sorted(every):
            for certificate in sorted(every[name], key=lambda c: (c.dtype, MODES.index(c.mode), c.shard)):
                values = asdict(certificate)
                reference = {field: values.pop(field) for field in _SHARED}
                fields = {field: value for field, value in values.items() if value not in ([], "")}
                if reference not in references:
                    references.append(reference)
                lines.append({**fields, "provenance": certificate.provenance, "reference": references.index(reference)})
        shown = [",\n".join("  " + json.dumps(line) for line in part) for part in (references, lines)]
        cache.write_text(path, f'{{\n "references": [\n{shown[0]}\n ],\n "certificates": [\n{shown[1]}\n ]\n}}\n')
        path.chmod(0o644)  # it is part of the package


def _merged(entries: list[Certificate]) -> list[Certificate]:
    """Join the shards of a sweep once all of them are there for the same wheel and profile."""
    out = [c for c in entries if not c.shard]
    groups: dict[tuple[Any, ...], list[Certificate]] = {}
    for c in entries:
        if c.shard:
            count = int(c.shard.partition("/")[2])
            groups.setdefault((c.dtype, c.mode, count, c.wheel_sha256, json.dumps(c.profile)), []).append(c)
    for (dtype, mode, count, *_), shards in groups.items():
        if len(shards) < count:
            out += shards
            continue
        out = [c for c in out if (c.dtype, c.mode) != (dtype, mode)]
        first = shards[0]
        out.append(
            Certificate(
                first.op, dtype, mode, *(sum(getattr(c, f) for c in shards) for f in ("inputs", "elements", "off")),
                sum(c.both_raised for c in shards), sum(c.pure_inputs for c in shards),
                sorted({name for c in shards for name in c.provenance}), first.profile, first.wheel_sha256,
                threads=sorted({t for c in shards for t in c.threads}), passes=first.passes,
            )
        )  # fmt: skip
    return out
