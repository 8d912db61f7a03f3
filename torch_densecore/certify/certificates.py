"""Certificates as data: what each operator was swept with and how many elements were off (none).

One JSON file per operator in `torch_densecore/certificates/`. An entry exists only for a sweep in which nothing differed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "certificates"
MODES = ("quick", "full", "exhaustive")


@dataclass
class Certificate:
    """One sweep of one operator and dtype.

    mode: "quick", "full" or "exhaustive" (every bit pattern). inputs: cases tried (argument sets). elements: result
    elements compared. both_raised: cases in which both sides raised. provenance: modelled functions that results depended
    on; empty means Apple's own arithmetic. shard: "i/n" for a part of a sweep.
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

    @property
    def key(self) -> tuple[str, str, str]:
        """What a newer entry replaces."""
        return self.dtype, self.mode, self.shard

    def text(self) -> str:
        """Short form for tables."""
        modelled = "" if not self.provenance else f", modelled: {', '.join(self.provenance)}"
        part = f", shard {self.shard}" if self.shard else ""
        return f"{self.dtype} {self.mode}: {self.elements:,} elements, {self.off} off{modelled}{part}"


def path_of(op: str, folder: Path = FOLDER) -> Path:
    """File of an operator's certificates."""
    return folder / f"{op.replace('::', '.')}.json"


def load(op: str, folder: Path = FOLDER) -> list[Certificate]:
    """Certificates of an operator; none when it has no file."""
    path = path_of(op, folder)
    if not path.is_file():
        return []
    return [Certificate(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))["certificates"]]


def load_all(folder: Path = FOLDER) -> Iterator[Certificate]:
    """Every certificate in the tree."""
    for path in sorted(folder.glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8"))["certificates"]:
            yield Certificate(**entry)


def summary(op: str, folder: Path = FOLDER) -> str:
    """Dtypes, modes and elements compared, for `densecore coverage`; empty when there is no certificate."""
    best: dict[str, Certificate] = {}
    for certificate in load(op, folder):
        known = best.get(certificate.dtype)
        if known is None or certificate.elements > known.elements:
            best[certificate.dtype] = certificate
    return "; ".join(f"{dtype} {best[dtype].mode} {best[dtype].elements:,}" for dtype in sorted(best))


def store(new: Certificate, folder: Path = FOLDER) -> None:
    """Put a certificate in place of an older one of the same dtype, mode and shard; complete sets of shards are merged."""
    if new.off:
        raise ValueError(f"{new.op} {new.dtype}: {new.off} elements are off, which is no certificate")
    if folder == FOLDER and (active := new.profile.get("overrides")):
        raise ValueError(f"{new.op}: swept under overrides ({', '.join(active)}), which is no certificate of the kernel")
    kept = [c for c in load(new.op, folder) if c.key != new.key] + [new]
    _write(new.op, _merged(kept), folder)


def withdraw(op: str, dtype: str, folder: Path = FOLDER) -> None:
    """Remove every certificate of an operator and dtype, after a sweep that found a difference."""
    kept = [c for c in load(op, folder) if c.dtype != dtype]
    if kept:
        _write(op, kept, folder)
    else:
        path_of(op, folder).unlink(missing_ok=True)


def _write(op: str, entries: Iterable[Certificate], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda c: (c.dtype, MODES.index(c.mode), c.shard))
    text = json.dumps({"op": op, "certificates": [asdict(c) for c in ordered]}, indent=1) + "\n"
    partial = path_of(op, folder).with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path_of(op, folder))


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
                threads=sorted({t for c in shards for t in c.threads}),
            )
        )  # fmt: skip
    return out
