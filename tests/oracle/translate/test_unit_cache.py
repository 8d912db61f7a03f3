"""The cache of compiled units on disk: round trips, damage, several processes, interruptions."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from torch_densecore.oracle.translate.cache import UnitCache
from torch_densecore.oracle.translate.link import Blob

_WRITER = """
import sys
from pathlib import Path
from torch_densecore.oracle.translate.cache import UnitCache
from torch_densecore.oracle.translate.link import compile_text
cache, first, count = UnitCache(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + count):
    text = f"define i64 @f(i64 %a) {{\\n  %r = add i64 %a, {number}\\n  ret i64 %r\\n}}\\n"
    cache.put(number, 0, compile_text(text), {"number": number})
    cache.flush()
    print(number, flush=True)
"""


def _writer(path: Path, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(path), str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def _start(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_cache_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "units.sqlite"
    first, second = UnitCache(path), UnitCache(path)
    first.put(0x1234, 0, Blob(b"code", [(3, "fma")]), {"direct": [1], "emulated": []})
    assert second.get(0x1234) is None
    first.flush()
    assert second.get(0x1234) == (Blob(b"code", [(3, "fma")]), {"direct": [1], "emulated": []})


def test_cache_ignores_altered_code(tmp_path: Path) -> None:
    path = tmp_path / "units.sqlite"
    cache = UnitCache(path)
    cache.put(1, 0, Blob(b"code", []), {})
    cache.flush()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE units SET code = ?", (b"cod3",))
    assert UnitCache(path).get(1) is None


def test_a_file_that_is_no_cache_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "units.sqlite"
    path.write_bytes(b"not a database" * 100)
    cache = UnitCache(path)
    assert cache.get(1) is None
    cache.put(1, 0, Blob(b"code", []), {})
    cache.flush()
    assert UnitCache(path).get(1) == (Blob(b"code", []), {})
    assert capsys.readouterr().err.count("was damaged") == 1


def test_an_unusable_cache_gives_one_notice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    cache = UnitCache(tmp_path / "file" / "units.sqlite")
    cache.put(1, 0, Blob(b"code", []), {})
    cache.flush()
    assert cache.get(1) is None
    assert capsys.readouterr().err.count("is not used") == 1


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    path = tmp_path / "units.sqlite"
    cache = UnitCache(path)
    cache.put(1, 0, Blob(b"parent", []), {})
    child = os.fork()
    if not child:
        cache.put(2, 0, Blob(b"child", []), {})
        cache.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.get(2) == (Blob(b"child", []), {})
    assert cache.get(1) is None  # still pending in the parent, and not written by the child
    cache.flush()
    assert cache.get(1) == (Blob(b"parent", []), {})


def test_optimised_code_is_preferred(tmp_path: Path) -> None:
    cache = UnitCache(tmp_path / "units.sqlite")
    for level, code in ((2, b"good"), (0, b"plain")):
        cache.put(1, level, Blob(code, []), {})
    cache.flush()
    assert cache.get(1) == (Blob(b"good", []), {})


def test_two_processes_share_a_cache(tmp_path: Path) -> None:
    path, count = tmp_path / "units.sqlite", 40
    writers = [_writer(path, first, count) for first in (0, count // 2)]  # the second half of one is the first of the other
    for writer in writers:
        _start(writer)
    for writer in writers:
        assert writer.wait(120) == 0
    cache = UnitCache(path)
    for number in range(count + count // 2):
        found = cache.get(number)
        assert found is not None and found[1] == {"number": number}


def test_a_killed_process_leaves_a_usable_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "units.sqlite"
    writer = _writer(path, 0, 100_000)
    _start(writer)
    assert writer.stdout is not None
    written = [int(writer.stdout.readline()) for _ in range(25)]
    writer.send_signal(signal.SIGKILL)
    writer.wait(60)
    cache = UnitCache(path)
    assert all((found := cache.get(number)) is not None and found[1] == {"number": number} for number in written)
    assert cache.get(99_999) is None
    cache.put(99_999, 0, Blob(b"code", []), {})
    cache.flush()
    assert UnitCache(path).get(99_999) == (Blob(b"code", []), {})
    assert capsys.readouterr().err == ""


def test_a_truncated_cache_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "units.sqlite"
    cache = UnitCache(path)
    for number in range(200):
        cache.put(number, 0, Blob(bytes(1000), []), {})
    cache.flush()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes()[:30_000])
    damaged = UnitCache(path)
    assert [damaged.get(number) for number in range(200)].count(None) > 100
    damaged.put(7, 0, Blob(b"code", []), {})
    damaged.flush()
    assert UnitCache(path).get(7) == (Blob(b"code", []), {})
    assert capsys.readouterr().err.count("was damaged") == 1
