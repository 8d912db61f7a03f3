"""Compiled units on disk: one SQLite file per wheel, translator version and host CPU.

SQLite gives atomic writes and lets processes share a file; every blob carries a checksum, since it will be executed.
A damaged file is replaced by an empty one. A cache that can't be used (no room, no permission, ...) is left alone: the units are
then compiled again in each process.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from .link import Blob

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS units ("
    "entry INTEGER, level INTEGER, digest BLOB, code BLOB, facts TEXT, PRIMARY KEY (entry, level)) WITHOUT ROWID"
)
_SELECT = "SELECT digest, code, facts FROM units WHERE entry = ? ORDER BY level DESC LIMIT 1"
_TIMEOUT = 30.0
_BATCH = 64

Facts = dict[str, Any]


def translator_version() -> str:
    """Digest of the sources that compiled code depends on."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        if path.name not in ("sweep.py", "cache.py", "lending.py", "results.py"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _digest(entry: int, code: bytes, facts: str) -> bytes:
    return hashlib.blake2b(entry.to_bytes(8, "little") + code + facts.encode(), digest_size=16).digest()


class UnitCache:
    """Machine code by guest address."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._db: sqlite3.Connection | None = None
        self._pending: list[tuple[int, int, bytes, bytes, str]] = []
        self._process = os.getpid()
        self._inherited: sqlite3.Connection | None = None
        self._renewed = False
        if path is not None:
            self._guard(self._open)

    def _after_fork(self) -> None:
        """A connection must not be used, nor closed, by a forked child."""
        if self._process != os.getpid():
            self._process, self._inherited, self._pending = os.getpid(), self._db, []
            if self._db is not None:
                self._guard(self._open)

    def _guard(self, action, *args):  # type: ignore[no-untyped-def]
        try:
            return action(*args)
        except (sqlite3.Error, OSError) as error:
            self._db = None
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError) and not self._renewed:
                self._renew(error)
            else:
                print(f"oracle: the translation cache {self.path} is not used: {error}", file=sys.stderr)
            return None

    def _renew(self, error: sqlite3.DatabaseError) -> None:
        """Begin with an empty file, once; a process that has the old one open keeps it."""
        assert self.path is not None
        self._renewed = True
        print(f"oracle: the translation cache {self.path} was damaged ({error}) and starts anew", file=sys.stderr)
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self._guard(self._open)

    def _open(self) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self.path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(_SCHEMA)

    def get(self, entry: int) -> tuple[Blob, Facts] | None:
        """The best code of a unit and what else is known about it, or None."""
        self._after_fork()
        if self._db is None:
            return None
        row = self._guard(self._fetch, entry)
        if row is None or _digest(entry, row[1], row[2]) != row[0]:
            return None
        facts = json.loads(row[2])
        return Blob(row[1], [tuple(item) for item in facts.pop("externals")]), facts

    def _fetch(self, entry: int) -> tuple[bytes, bytes, str] | None:
        assert self._db is not None
        return self._db.execute(_SELECT, (entry,)).fetchone()

    def put(self, entry: int, level: int, blob: Blob, facts: Facts) -> None:
        """Keep a unit; written in batches and by `flush`."""
        self._after_fork()
        text = json.dumps({**facts, "externals": blob.externals})
        self._pending.append((entry, level, _digest(entry, blob.code, text), blob.code, text))
        if len(self._pending) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what is pending, in one transaction."""
        self._after_fork()
        pending, self._pending = self._pending, []
        if pending and self._db is not None:
            self._guard(self._write, pending)

    def _write(self, rows: list[tuple[int, int, bytes, bytes, str]]) -> None:
        assert self._db is not None
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?, ?)", rows)
        self._db.execute("COMMIT")
