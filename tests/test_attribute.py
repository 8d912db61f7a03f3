"""`densecore attribute`: what is observed of a script, which runs are made, resuming, rows, page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from torch_densecore.overrides.attribute import page, result, table
from torch_densecore.overrides.attribute.study import ALL, Plan, Study, StudyError

SCRIPT = """
import sys
import torch

torch.manual_seed(1)
device = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(700, 30), torch.nn.Tanh(), torch.nn.Linear(30, 5)).to(device)
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(8, 700).to(device), torch.randn(8, 5).to(device)
for step in range(1000):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()), flush=True)
    if step == int(sys.argv[2]):
        break
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def losses(text: str) -> list[float]:
    return [float(line.split()[1]) for line in text.splitlines()]


def test_a_study_of_a_script_and_going_on_with_it(python: Any, script: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    command = ["-m", "torch_densecore.cli", "attribute", "--steps", "3", "--ops", "addmm,tanh,mul", "-o", str(folder), "--json"]
    program = ["--", str(script), "densecore", "1000"]
    done = json.loads(python(*command, *program).stdout)
    run = ["-m", "torch_densecore.cli", "run"]
    plain = losses(python(*run, "--", str(script), "densecore", "2").stdout)
    assert done["losses"] == plain and done["steps"] == 3
    rows = {row["name"]: row for row in done["rows"]}
    assert {"aten::addmm", "aten::tanh", "aten::mul"} <= set(rows) and rows["aten::mul"]["status"] == "equal"
    flipped = rows["aten::addmm"]
    if flipped["status"] == "run":  # a host that computes it otherwise
        direct = losses(python(*run, "--override", "addmm=host", "--", str(script), "densecore", "2").stdout)
        assert flipped["losses"] == [a - b for a, b in zip(direct, plain, strict=True)]
        assert flipped["calls"] == 6 and flipped["calls_off"] > 0 and flipped["first_step"] == 1
        assert 0 < flipped["parameters_off"] <= flipped["parameters"] == 700 * 30 + 30 + 30 * 5 + 5
        assert flipped["outputs"] == 2  # the third step ends the run
    assert (folder / "attribution.html").read_text().count("<svg") >= (flipped["status"] == "run")

    lines = (folder / "results.jsonl").read_text().splitlines()
    (folder / "results.jsonl").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])  # killed while writing
    again = json.loads(python(*command, *program).stdout)
    assert again == done and len((folder / "results.jsonl").read_text().splitlines()) == len(lines) + 1
    other = python(*command, "--to", "oracle", *program, check=False)
    assert other.returncode == 2 and "holds a study of another command" in other.stderr


def test_typos_and_scripts_that_show_nothing(python: Any, tmp_path: Path) -> None:
    command = ["-m", "torch_densecore.cli", "attribute", "-o", str(tmp_path / "study")]
    failed = python(*command, "--ops", "adddmm", "--", "x.py", check=False)
    assert failed.returncode == 2 and "unknown op 'aten::adddmm'; did you mean aten::addmm" in failed.stderr
    (tmp_path / "x.py").write_text("import torch; print(torch.ones(3).sum())")
    failed = python(*command, "--", str(tmp_path / "x.py"), check=False)
    assert failed.returncode == 2 and "nothing was seen" in failed.stderr
    failed = python(*command, "--restart", "--", str(tmp_path / "none.py"), check=False)
    assert failed.returncode == 2 and "the baseline run failed: the script ended with exit code 2" in failed.stderr


class Canned(Study):
    """A study whose runs give what the test says."""

    def __init__(self, folder: Path, runs: dict[str, Any], words: list[str] | None = None) -> None:
        super().__init__(Plan(["train.py"], 2, "host", words or []), folder)
        self.runs = runs
        self.made: list[tuple[str, str]] = []

    def _run(self, name: str, rules: str) -> dict[str, Any]:
        self.made.append((name, rules))
        if isinstance(self.runs[name], BaseException):
            raise self.runs[name]
        return self.runs[name]


def observed(*values: float, off: int = 0, **more: Any) -> dict[str, Any]:
    steps = [{"loss": value, "parameters": f"digest of {value}"} for value in values]
    return {"error": None, "steps": steps, "outputs": [[i, repr(v)] for i, v in enumerate(values)], "parameters": {}, **more} | (
        {"parameters": {"off": off, "total": 10, "max_ulp": 3.0}} if off else {}
    )


def totals(calls: int) -> dict[str, Any]:
    return {"calls": calls, "elements_off": 5 * calls, "elements": 10 * calls, "max_ulp": 2.0}


CHECK = {
    "differences": {"aten::mm": totals(3), "aten::add_.Tensor": totals(1), "aten::exp": totals(2)},
    "calls": {"aten::mm": 4, "aten::add_.Tensor": 9, "aten::add.Tensor": 2, "aten::exp": 2, "aten::neg": 7, "aten::copy_": 3},
}


def canned(folder: Path, **runs: Any) -> Canned:
    usual = {
        "baseline": observed(4.0, 3.0), "check": observed(4.0, 3.0, **CHECK), "aten::mm": observed(4.0, 3.5, off=4),
        "aten::add": observed(4.25, 2.75, off=10), "aten::exp": observed(4.0, 3.0), ALL: observed(4.5, 5.0, off=9),
    }  # fmt: skip
    return Canned(folder, usual | runs)


def told(name: str, done: int, total: int) -> None:
    pass


def test_which_runs_are_made_and_what_the_rows_say(tmp_path: Path) -> None:
    study = canned(tmp_path)
    study.open(restart=False)
    study.run(told)
    assert study.made == [
        ("baseline", ""), ("check", ""), ("aten::add", "aten::add.Tensor=host;aten::add_.Tensor=host"),
        ("aten::exp", "aten::exp.default=host"), ("aten::mm", "aten::mm.default=host"),
        (ALL, "aten::add.Tensor=host;aten::add_.Tensor=host;aten::exp.default=host;aten::mm.default=host"),
    ]  # fmt: skip
    rows = result.rows(study)
    assert [(row.name, row.loss_difference, row.share, row.first_step, row.status) for row in rows] == [
        (ALL, 2.0, 1.0, 1, "run"), ("aten::mm", 0.5, 0.25, 2, "run"), ("aten::add", -0.25, 0.125, 1, "run"),
        ("aten::exp", 0.0, 0.0, None, "run"), ("aten::neg", None, None, None, "equal"),
    ]  # fmt: skip
    mm = rows[1]
    assert (mm.calls, mm.calls_off, mm.elements_off, mm.parameters_off, mm.outputs, mm.outputs_off) == (4, 3, 15, 4, 2, 1)
    assert table.cells(mm) == ["aten::mm", "3 of 4", "15, 2 ulp", "2", "+0.5", "25%", "40%, max 3 ulp", "1 of 2"]
    assert table.cells(rows[-1])[3] == "equal: no run needed"
    text = page.render(study, rows)
    assert text.count("<svg") == 2 and text.count("<rect") == 4 and "aten::neg" in text and "src=" not in text


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    study = canned(tmp_path, **{"aten::exp": KeyboardInterrupt()})
    study.open(restart=False)
    with pytest.raises(KeyboardInterrupt):
        study.run(told)
    assert [row.status for row in result.rows(study)] == ["run", "waiting", "waiting", "waiting", "equal"]
    study = canned(tmp_path)
    study.open(restart=False)
    study.run(told)
    assert [name for name, _ in study.made] == ["aten::exp", "aten::mm", ALL]
    study = canned(tmp_path)
    study.open(restart=True)
    study.run(told)
    assert len(study.made) == 6


def test_groups_and_ops_limit_the_flips(tmp_path: Path) -> None:
    study = Canned(tmp_path, canned(tmp_path).runs | {"@transcendental": observed(4.0, 3.0)}, ["@transcendental", "mm"])
    study.open(restart=False)
    study.run(told)
    assert study.made[2:] == [
        ("@transcendental", "aten::exp.default=host"), ("aten::mm", "aten::mm.default=host"),
        (ALL, "aten::exp.default=host;aten::mm.default=host"),
    ]  # fmt: skip


def test_failures_are_told(tmp_path: Path) -> None:
    study = canned(tmp_path / "a", check=observed(4.0, 3.000001, **CHECK))
    study.open(restart=False)
    with pytest.raises(StudyError, match="does not repeat itself"):
        study.run(told)
    study = canned(tmp_path / "b", **{"aten::mm": {"error": "ValueError: no"}})
    study.open(restart=False)
    study.run(told)
    assert [(row.status, row.error) for row in result.rows(study) if row.name == "aten::mm"] == [("failed", "ValueError: no")]
    study = canned(tmp_path / "c", baseline={"error": "the process ended with exit code -9"})
    study.open(restart=False)
    with pytest.raises(StudyError, match="baseline run failed: the process ended with exit code -9"):
        study.run(told)
