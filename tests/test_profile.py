"""Reference profiles: names, files, the environment, validation, subscribers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_densecore
from torch_densecore import profile as profiles
from torch_densecore.profile import Profile, ProfileError


def test_default() -> None:
    default = profiles.load()
    assert (default.name, default.torch, default.threads, default.lanes) == ("torch-2.13.0-macos-arm64", "2.13.0", 4, 4)
    assert default.describe()["blas"] == "accelerate" and default.describe()["libm"] == "apple"


@pytest.mark.parametrize("release,lanes", [("2.4.0", 8), ("2.5.1", 8), ("2.6.0", 4), ("2.14.0", 4)])
def test_lanes_of_releases(release: str, lanes: int) -> None:
    assert profiles.load(release).lanes == lanes
    assert profiles.load(f"torch-{release}-macos-arm64") == profiles.load(release)


def test_json_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(profiles.load("2.8.0").replace(name="mine", threads=8).to_json())
    assert profiles.load(path) == profiles.load("2.8.0").replace(name="mine", threads=8)


def test_json_with_models_by_name(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"torch": "2.4.0", "threads": 2, "blas": "accelerate"}))
    loaded = profiles.load(path)
    assert loaded.lanes == 8 and loaded.threads == 2 and loaded.blas == profiles.model("blas", "accelerate")


@pytest.mark.parametrize(
    "data,text",
    [
        ({"torch": "two"}, "release such as 2.13.0"), ({"threads": 0}, "threads must be"), ({"lanes": 5}, "lanes must be"),
        ({"system": "linux-x86"}, "is not macos-arm64"), ({"speed": 1}, "unknown profile field speed"),
        ({"blas": "mkl"}, "unknown blas model 'mkl'; known: accelerate"), ({"libm": {"name": "x"}}, "has no 'functions'"),
    ],
)  # fmt: skip
def test_bad_profiles(data: dict, text: str) -> None:
    with pytest.raises(ProfileError, match=text):
        profiles.from_dict(data)


def test_unknown_name_and_broken_file(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no profile 'm7'"):
        profiles.load("m7")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ProfileError, match="not a JSON profile"):
        profiles.load(tmp_path / "x.json")


def test_use_restores_and_tells_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "_listeners", [])
    seen: list[int] = []
    profiles.subscribe(lambda p: seen.append(p.threads))
    before = profiles.current()
    with profiles.use(threads=11) as inner:
        assert profiles.current() is inner and inner.threads == 11
    assert profiles.current() == before and seen == [before.threads, 11, before.threads]


def test_environment(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"torch": "2.6.0", "threads": 3}))
    code = "from torch_densecore import profile; p = profile.current(); print(p.torch, p.threads)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**__import__("os").environ, "DENSECORE_PROFILE": str(path)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == ["2.6.0", "3"], done.stderr


def test_profiles_are_values() -> None:
    assert Profile() == Profile() and hash(Profile()) == hash(Profile())
    with pytest.raises(AttributeError):
        Profile().threads = 2  # type: ignore[misc]


def test_device_refuses_a_release_that_its_kernels_do_not_reproduce(python):
    program = "import torch, torch_densecore; torch.ones(2, device='densecore')"
    done = python("-c", program, DENSECORE_PROFILE="2.8.0", check=False)
    assert done.returncode != 0
    assert "the kernels reproduce torch 2.13.0" in done.stderr and "names torch 2.8.0" in done.stderr
    assert python("-c", program, DENSECORE_PROFILE="2.8.0", DENSECORE_KERNELS="off").returncode == 0


def test_a_refused_profile_is_forgotten_after_its_context():
    with profiles.use("2.8.0"):
        with pytest.raises(RuntimeError, match="names torch 2.8.0"):
            torch.ones(2, device="densecore")
        with pytest.raises(profiles.ProfileError, match="emulate_cpu: the kernels reproduce torch 2.13.0"):
            torch_densecore.emulate_cpu("random")
    assert torch.ones(2, device="densecore").sum().item() == 2
