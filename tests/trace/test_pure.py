"""What needs neither the compiled extension nor, before it is used, torch."""

import shutil
import subprocess
import sys

import pytest
from traced_programs import ROOT, densecore, script


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={"PYTHONPATH": str(ROOT), **env}, capture_output=True, text=True, check=False)


def test_the_tools_work_without_the_extension(tmp_path):
    package = tmp_path / "pure" / "torch_densecore"
    shutil.copytree(ROOT / "torch_densecore", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    env = {"PYTHONPATH": str(package.parent)}
    program = str(script(tmp_path))
    assert "No module named" in python("import torch_densecore._C", **env).stderr
    for name, seed in (("a", "0"), ("b", "1")):
        words = ("record", "-o", f"{name}.dct", "--keep-tensors", "ops=aten::addmm", "--", program, seed)
        assert densecore(*words, cwd=tmp_path, env=env).returncode == 0
    for words, code in (
        (("diff", "a.dct", "b.dct"), 1),
        (("explain", "a.dct", "b.dct", "--no-replay"), 1),
        (("verify", "a.dct", "--", program, "0"), 0),
    ):
        done = densecore(*words, cwd=tmp_path, env=env)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr


def test_pytest_finds_the_fixture_without_importing_torch():
    assert python("import sys, pytest_densecore; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)").returncode == 0
    assert 'pytest_densecore = "pytest_densecore"' in (ROOT / "pyproject.toml").read_text().split("pytest11]")[1]


@pytest.mark.parametrize("pure, needed", [("1", "[]"), ("0", "['torch==2.13.0', 'ninja']")])
def test_what_a_build_needs(pure, needed):
    code = "import build_backend; print(build_backend.get_requires_for_build_wheel())"
    assert python(code, DENSECORE_NO_EXTENSION=pure).stdout.strip() == needed
