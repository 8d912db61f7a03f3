"""The on-disk cache: where it is, locks between processes, and writes that are complete or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_POLL = 0.2


def cache_dir() -> Path:
    """Root of the cache: $DENSECORE_CACHE or ~/.cache/densecore."""
    root = os.environ.get("DENSECORE_CACHE")
    return Path(root) if root else Path.home() / ".cache" / "densecore"


def oracle_dir() -> Path:
    """The oracle's part of the cache."""
    return cache_dir() / "oracle"


@contextlib.contextmanager
def locked(name: str, timeout: float = 1800.0) -> Iterator[None]:
    """Hold the lock `name` of the cache; other processes that ask for it wait."""
    import fcntl  # absent on Windows, where the oracle does not run but its modules can be imported

    folder = oracle_dir() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stream = open(folder / name, "w")
    except OSError as error:
        raise OSError(f"the cache {cache_dir()} cannot be written ({error}); set DENSECORE_CACHE") from error
    with stream:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another process has held {stream.name} for {timeout:.0f} s") from None
                time.sleep(_POLL)
        yield


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="partial-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def stale(folder: Path, pattern: str, age: float = 24 * 3600.0) -> list[Path]:
    """Entries of a folder not touched for `age` seconds."""
    now = time.time()
    return [path for path in folder.glob(pattern) if now - path.stat().st_mtime > age]
