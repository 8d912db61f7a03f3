"""`densecore verify` and the pytest fixture, as a CI run uses them."""

import subprocess
import sys

from traced_programs import ROOT, densecore, script

TEST = """
import torch

def step(factor):
    torch.manual_seed(0)
    return (torch.nn.Linear(4, 4)(torch.randn(2, 4)) * factor).sum()

def test_step(densecore_golden):
    with densecore_golden():
        step({factor})
"""


def run_pytest(folder, *words):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_densecore", "-p", "no:cacheprovider", *words]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_fixture_records_compares_and_explains(tmp_path):
    (tmp_path / "test_model.py").write_text(TEST.format(factor=2.0))
    missing = run_pytest(tmp_path)
    assert missing.returncode == 1 and "record it with pytest --densecore-update" in missing.stdout
    assert run_pytest(tmp_path, "--densecore-update").returncode == 0
    assert (tmp_path / "goldens" / "test_step.dct").is_file()
    assert run_pytest(tmp_path).returncode == 0
    (tmp_path / "test_model.py").write_text(TEST.format(factor=2.5))
    changed = run_pytest(tmp_path)
    assert changed.returncode == 1
    assert "aten::mul.Tensor" in changed.stdout and "2.0 / 2.5" in changed.stdout or "arguments" in changed.stdout
    assert "test_model.py:" in changed.stdout and "densecore explain" in changed.stdout


def test_verify_equal_different_and_failing(tmp_path):
    program = str(script(tmp_path))
    assert densecore("record", "-o", "golden.dct", "--", program, "0", cwd=tmp_path).returncode == 0
    assert densecore("verify", "golden.dct", "--", sys.executable, program, "0", cwd=tmp_path).returncode == 0
    other = densecore("verify", "golden.dct", "-o", "run.dct", "--html", "report.html", "--", program, "1", cwd=tmp_path)
    assert other.returncode == 1 and "generator state" in other.stdout
    assert (tmp_path / "run.dct").is_file() and (tmp_path / "report.html").is_file()
    failing = densecore("verify", "golden.dct", "--", "-c", "raise SystemExit(5)", cwd=tmp_path)
    assert failing.returncode == 2 and "exit code 5" in failing.stderr
    same = densecore("verify", "golden.dct", "-o", "golden.dct", "--", program, cwd=tmp_path)
    assert same.returncode == 2 and "golden trace itself" in same.stderr
