"""The `.dct` trace file: JSON lines, written as the program runs, readable after a kill.

A trace is a text file; `head mac.dct` shows it. Each line is one JSON value, a tab, and the CRC-32 of all the lines up
to and with this one (8 hex digits), so that an edited, removed, inserted or reordered line is found. Lines are written
to the file one by one without a buffer of our own: after SIGKILL the file holds every operator that had finished.

    {"densecore_trace": 1, ...}            header, always the first line: version and what the fields mean
    {"environment": {...}}                 the machine and the program
    {"site": 7, "op": "aten::mm", ...}     everything about an operator call that repeats: name, module, shapes, ...
    [12, 7, ["in", ...], ["out", ...], ["sample", ...], rng]       one operator call (an event) at site 7
    {"step": 1, "rng": {...}}              a training step begins
    {"tensors": {"event": 12, "bytes": N}} the next N bytes are a safetensors file, then a newline
    {"note": "..."}                        something the reader should know (tensors over the cap, ...)
    {"end": {"status": "complete", ...}}   last line; absent when the run was killed

Nothing in the file is ever executed or unpickled.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import schema
from .errors import TraceError

VERSION = 1
HEADER_KEY = "densecore_trace"
MAX_LINE = 64 << 20  # bytes; a longer "line" is not a trace
DIGEST_CHARS = 32  # xxh3-128, hexadecimal

FIELDS = {
    "event": "[index, site, input digests, output digests, output samples, rng]",
    "digest": "xxh3-128 of the bytes, NaN made canonical; null: no defined content",
    "order": "memory: digests of non-contiguous tensors depend on their layout; logical: they do not",
    "sample": "base64 of up to `samples` evenly spaced elements, little endian; null: not sampled",
    "rng": "[state before, state after] as xxh3-128 digests, or null for operators that draw nothing",
}


@dataclass(frozen=True, slots=True)
class Site:
    """Everything about an operator call except its values: shared by all calls that repeat it."""

    id: int
    op: str
    module: str
    phase: str
    source: str
    node: str
    param: str
    args: Any
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]


@dataclass(slots=True)
class Event:
    """One operator call."""

    index: int
    site: Site
    inputs: list[str | None]
    outputs: list[str | None]
    samples: list[str | None]
    rng: list[str] | None
    step: int


@dataclass
class Summary:
    """What reading a file to its end found out."""

    events: int = 0
    steps: int = 0
    sites: int = 0
    status: str = "killed"  # until an end line says otherwise
    error: str | None = None
    notes: list[str] = field(default_factory=list)
    tensors: int = 0
    problem: str | None = None  # the first damaged line, when reading leniently


class TraceWriter:
    """Appends lines to a new file. Each call is one `write`, so what was written survives the process."""

    def __init__(self, path: str | os.PathLike[str], samples: int, order: str = "memory") -> None:
        self.path = Path(path)
        try:
            self._file = open(self.path, "wb", buffering=0)
        except OSError as error:
            raise TraceError(f"cannot write {self.path}: {error.strerror}") from error
        self._crc = 0
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.write({HEADER_KEY: VERSION, "created": created, "samples": samples, "order": order, "fields": FIELDS})

    def write(self, value: Any) -> None:
        """Writes one JSON line."""
        self.write_text(json.dumps(value, separators=(",", ":")))

    def write_text(self, text: str) -> None:
        """Writes one line that already is JSON (the event line is composed by hand, being the hot one)."""
        data = text.encode()
        self._crc = zlib.crc32(data, self._crc)
        self._file.write(b"%b\t%08x\n" % (data, self._crc))

    def write_tensors(self, event: int, blob: bytes) -> None:
        """Writes a safetensors file that belongs to an event."""
        head = json.dumps({"tensors": {"event": event, "bytes": len(blob)}}).encode()
        self._crc = zlib.crc32(blob, zlib.crc32(head, self._crc))
        # the checksum of the line covers the bytes that follow it, so that one write holds both
        self._file.write(b"%b\t%08x\n%b\n" % (head, self._crc, blob))

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


class TraceReader:
    """Streams a trace file. `strict=False` stops at the first damaged line and remembers it in `summary.problem`."""

    def __init__(self, path: str | os.PathLike[str], *, strict: bool = False) -> None:
        self.path = Path(path)
        self.strict = strict
        self.summary = Summary()
        self.sites: dict[int, Site] = {}
        self.header, self.environment = self._read_head()

    def events(self) -> Iterator[Event]:
        """All events in file order."""
        step = 0
        for value, _ in self._lines():
            if isinstance(value, list):
                yield self._event(value, step)
            elif "step" in value:
                step = value["step"]

    def lines(self) -> Iterator[Any]:
        """All decoded lines after the header: events as `Event`, the others as dictionaries (sites are kept inside)."""
        step = 0
        for value, _ in self._lines():
            if isinstance(value, list):
                yield self._event(value, step)
                continue
            if "step" in value:
                step = value["step"]
            yield value

    def tensors(self, wanted: set[int] | None = None) -> dict[int, bytes]:
        """The stored safetensors blobs by event index."""
        return {
            value["tensors"]["event"]: blob
            for value, blob in self._lines(wanted or "all")
            if isinstance(value, dict) and "tensors" in value and blob is not None
        }

    # -- below: decoding --------------------------------------------------------------------------------------------

    def _read_head(self) -> tuple[dict[str, Any], dict[str, Any]]:
        value = self._header()
        version = value[HEADER_KEY]
        if not isinstance(version, int) or version > VERSION:
            raise TraceError(
                f"{self.path} has format version {version}; this densecore reads up to version {VERSION}. "
                "Update torch_densecore to read it."
            )
        lines = self._raw_lines()
        if next(lines, None) is None:
            raise TraceError(f"{self.path}: {self.summary.problem}")
        second = next(lines, None)
        environment = second[1].get("environment", {}) if second and isinstance(second[1], dict) else {}
        try:
            schema.check_header(value)
            return value, schema.check_environment(environment)
        except ValueError as error:
            raise TraceError(f"{self.path} does not follow the format: {error}") from error

    def _header(self) -> dict[str, Any]:
        """The first line, whether its checksum is right or not: a foreign or a newer file should be called one."""
        try:
            with open(self.path, "rb") as file:
                line = file.readline(MAX_LINE)
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror}") from error
        if not line:
            raise TraceError(f"{self.path} is empty: the run that wrote it ended before its first line")
        try:
            value = json.loads(line.rpartition(b"\t")[0])
        except ValueError:
            value = None
        if not isinstance(value, dict) or HEADER_KEY not in value:
            raise TraceError(f"{self.path} is not a densecore trace")
        return value

    def _lines(self, blobs: Any = None) -> Iterator[tuple[Any, bytes | None]]:
        self.summary = summary = Summary()
        previous = -1
        for number, value, blob in self._raw_lines(blobs):
            if number == 1:
                continue
            try:
                if isinstance(value, list):
                    schema.check_event(value, self.sites, previous)
                    previous = value[0]
                    summary.events += 1
                else:
                    self._account(value, summary)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                said = f"site {error} is not defined" if isinstance(error, KeyError) and isinstance(value, list) else str(error)
                self._damaged(f"line {number} does not follow the format ({said})")
                return
            yield value, blob

    def _account(self, value: Any, summary: Summary) -> None:
        if "site" in value:
            schema.check_site(value)
            self.sites[value["site"]] = _site(value)
            summary.sites += 1
            return
        schema.check_other(value)
        if "step" in value:
            summary.steps += 1
        elif "tensors" in value:
            summary.tensors += 1
        elif "note" in value:
            summary.notes.append(str(value["note"]))
        elif "end" in value:
            summary.status = value["end"]["status"]
            summary.error = value["end"].get("error")

    def _event(self, value: list[Any], step: int) -> Event:
        index, site, inputs, outputs, samples, rng = value
        return Event(index, self.sites[site], inputs, outputs, samples, rng, step)

    def _raw_lines(self, blobs: Any = None) -> Iterator[tuple[int, Any, bytes | None]]:
        """Yields (line number, value, blob); checks the chain of checksums."""
        try:
            file = open(self.path, "rb")
        except OSError as error:
            raise TraceError(f"cannot read {self.path}: {error.strerror}") from error
        crc = 0
        loads = json.loads
        with file:
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                text, tab, check = line.rpartition(b"\t")
                if not tab or len(check) != 9 or not line.endswith(b"\n"):
                    what = "has no checksum" if line.endswith(b"\n") else "is cut off"
                    self._damaged(f"line {number} {what}")
                    return
                crc = zlib.crc32(text, crc)
                blob = None
                if text.startswith(b'{"tensors"'):
                    size = _blob_size(text)
                    blob = file.read(size)
                    crc = zlib.crc32(blob, crc)
                    if len(blob) != size or file.read(1) != b"\n":
                        self._damaged(f"the tensors after line {number} are cut off")
                        return
                if b"%08x\n" % crc != check:
                    self._damaged(f"line {number} does not match its checksum: the file was edited or damaged there")
                    return
                try:
                    value = loads(text)
                except ValueError:
                    self._damaged(f"line {number} is not JSON")
                    return
                if blob is not None and not (blobs == "all" or (blobs and value["tensors"]["event"] in blobs)):
                    blob = None
                yield number, value, blob

    def _damaged(self, what: str) -> None:
        if self.strict:
            raise TraceError(f"{self.path}: {what}")
        self.summary.problem = what


def validate(path: str | os.PathLike[str]) -> Summary:
    """Reads a whole file and returns its summary; `summary.problem` names the first damage, if any."""
    reader = TraceReader(path)
    for event in reader.events():
        bad = [d for d in (*event.inputs, *event.outputs) if d is not None and len(d) != DIGEST_CHARS]
        if bad:
            reader.summary.problem = f"event {event.index} has a digest of {len(bad[0])} characters"
            break
    return reader.summary


def _site(value: dict[str, Any]) -> Site:
    return Site(
        value["site"],
        value["op"],
        value["module"],
        value["phase"],
        value["source"],
        value.get("node", ""),
        value.get("param", ""),
        value["args"],
        tuple(value["inputs"]),
        tuple(value["outputs"]),
    )


def _blob_size(text: bytes) -> int:
    try:
        size = json.loads(text)["tensors"]["bytes"]
    except (ValueError, KeyError, TypeError):
        return 0
    return size if isinstance(size, int) and size >= 0 else 0
