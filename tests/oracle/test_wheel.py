"""Wheels: what is damaged, foreign or missing gives a clear error and leaves the cache sound; locks; atomic writes."""

from __future__ import annotations

import json
import multiprocessing
import struct
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from torch_densecore.oracle import WheelError, cache, wheel

ARM64, X86 = 0x0100000C, 0x01000007


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("DENSECORE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def make_wheel(path: Path, version: str = "2.13.0", cpu: int = ARM64, libraries: bool = True) -> Path:
    """A tiny wheel with the files the oracle looks at."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"torch-{version}.dist-info/METADATA", f"Name: torch\nVersion: {version}\n")
        for name in wheel.DYLIBS if libraries else ():
            archive.writestr(f"torch/lib/{name}", struct.pack("<II", 0xFEEDFACF, cpu) + bytes(1000))
    return path


def test_a_good_wheel_is_unpacked_once(folder: Path) -> None:
    path = make_wheel(folder / "a.whl")
    first = wheel.fetch("2.13.0", path)
    stamp = first.dylib("libc10.dylib").stat().st_mtime_ns
    assert wheel.fetch("2.13.0", path) == first and first.dylib("libc10.dylib").stat().st_mtime_ns == stamp
    assert first.sha256 == wheel.sha256_of(path)
    assert not list(first.root.glob("partial-*"))


def test_a_wheel_in_the_cache_needs_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "_pip", lambda *a: pytest.fail("pip was called"))
    wheels = cache.oracle_dir() / "wheels"
    wheels.mkdir(parents=True)
    make_wheel(wheels / "torch-2.13.0-2-cp311-cp311-macosx_14_0_arm64.whl")
    assert wheel.fetch("2.13.0") == wheel.fetch("2.13.0") == wheel.known("2.13.0")


def test_a_lost_library_is_unpacked_again(folder: Path) -> None:
    wheels = cache.oracle_dir() / "wheels"
    wheels.mkdir(parents=True)
    make_wheel(wheels / "torch-2.13.0-cp311-cp311-macosx_14_0_arm64.whl")
    got = wheel.fetch("2.13.0")
    got.dylib("libc10.dylib").write_bytes(b"short")
    assert wheel.known("2.13.0") is None
    assert wheel.fetch("2.13.0").dylib("libc10.dylib").stat().st_size == 1008


@pytest.mark.parametrize(
    "changes,text",
    [
        ({"cpu": X86}, "is for x86_64, not for arm64"), ({"libraries": False}, "has no macOS libraries"),
        ({"version": "2.8.0"}, "is torch 2.8.0, the profile asks for 2.13.0"),
    ],
)  # fmt: skip
def test_foreign_wheels(folder: Path, changes: dict, text: str) -> None:
    with pytest.raises(WheelError, match=text):
        wheel.fetch("2.13.0", make_wheel(folder / "a.whl", **changes))


def test_damaged_wheels(folder: Path) -> None:
    path = make_wheel(folder / "a.whl")
    data = bytearray(path.read_bytes())
    (folder / "short.whl").write_bytes(data[: len(data) // 2])
    with pytest.raises(WheelError, match="damaged or incomplete"):
        wheel.fetch("2.13.0", folder / "short.whl")
    data[200] ^= 0xFF  # inside a library: its checksum no longer fits
    (folder / "flipped.whl").write_bytes(data)
    with pytest.raises(WheelError, match="damaged or incomplete"):
        wheel.fetch("2.13.0", folder / "flipped.whl")
    with pytest.raises(WheelError, match="there is no wheel"):
        wheel.fetch("2.13.0", folder / "absent.whl")


def test_a_damaged_download_does_not_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = cache.oracle_dir() / "wheels"
    wheels.mkdir(parents=True)
    bad = wheels / "torch-2.13.0-cp311-cp311-macosx_14_0_arm64.whl"
    bad.write_bytes(b"not a zip")
    with pytest.raises(WheelError):
        wheel.fetch("2.13.0")
    assert not bad.exists() and wheel.known("2.13.0") is None


def pip_that_serves(path: Path, digest: str):
    """A stand-in for pip whose index gives `digest` and which downloads `path`."""

    def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "install":
            info = {"url": f"https://index/{path.name}", "archive_info": {"hashes": {"sha256": digest}}}
            report = Path(arguments[arguments.index("--report") + 1])
            report.write_text(json.dumps({"install": [{"download_info": info}]}))
        else:
            (Path(arguments[arguments.index("--dest") + 1]) / path.name).write_bytes(path.read_bytes())
        return subprocess.CompletedProcess(arguments, 0, "", "")

    return pip


def test_the_indexs_hash_is_checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_wheel(folder / "torch-2.13.0-cp311-cp311-macosx_14_0_arm64.whl")
    monkeypatch.setattr(wheel, "_pip", pip_that_serves(path, "0" * 64))
    with pytest.raises(WheelError, match="the index says 0000"):
        wheel.fetch("2.13.0")
    assert not list((cache.oracle_dir() / "wheels").glob("*.whl"))
    monkeypatch.setattr(wheel, "_pip", pip_that_serves(path, wheel.sha256_of(path)))
    assert wheel.fetch("2.13.0").version == "2.13.0"


def test_no_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess((), 1, "", "ERROR: no connection")
    monkeypatch.setattr(wheel, "_pip", lambda *a: failed)
    with pytest.raises(WheelError, match="Without a network, put the wheel file into .*no connection"):
        wheel.fetch("2.13.0")


def _hold(started: multiprocessing.synchronize.Event, seconds: float) -> None:
    with cache.locked("test"):
        started.set()
        time.sleep(seconds)


def test_processes_wait_for_each_other(folder: Path) -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    other = context.Process(target=_hold, args=(started, 0.5))
    other.start()
    assert started.wait(10)
    with pytest.raises(TimeoutError, match="another process has held"), cache.locked("test", timeout=0.0):
        pass
    with cache.locked("test"):
        assert not other.is_alive() or other.join(5) is None
    other.join()


def test_atomic_text(folder: Path) -> None:
    target = folder / "deep" / "x.json"
    cache.write_text(target, "one")
    cache.write_text(target, "two")
    assert target.read_text() == "two" and list(target.parent.iterdir()) == [target]
