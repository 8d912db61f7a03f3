"""The survey: records, causes, the stored form; the command line around the oracle."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch_densecore.oracle import Oracle, commands, survey  # noqa: E402


def _survey(oracle: Oracle) -> dict[str, survey.Record]:
    mode = survey.SurveyMode(oracle)
    with torch.no_grad(), mode:
        x = torch.linspace(-3, 3, 4001)
        torch.erf(x)
        x.view(-1, 1).abs().neg_()
        torch.linalg.cholesky(torch.eye(2))
    return mode.records


def test_records(oracle: Oracle) -> None:
    records = _survey(oracle)
    erf, absolute = records["aten::erf"], records["aten::abs"]
    assert erf.compared == 1 and erf.elements == 4001 and erf.off > 0 and erf.max_ulp > 0
    assert absolute.off == 0 and records["aten::neg_"].off == 0 and "aten::view" not in records
    (failure,) = records["aten::linalg_cholesky_ex"].failures
    assert failure.startswith("UnsupportedRoutine: spotrf")


def test_written_form(oracle: Oracle, tmp_path: Path) -> None:
    records = list(_survey(oracle).values())
    survey.write(records, tmp_path / "s.json", oracle, "test")
    data = json.loads((tmp_path / "s.json").read_text())
    assert data["wheel_sha256"] == oracle.wheel.sha256 and data["profile"] == oracle.profile.describe()
    assert data["summary"]["other bits"] == sum(r.off > 0 for r in records)
    by_name = {entry["op"]: entry for entry in data["operators"]}
    assert "vector library" in by_name["aten::erf"]["cause"] and by_name["aten::abs"]["cause"] == ""


@pytest.mark.parametrize(
    "op,word",
    [
        ("aten::mm", "matrix product"), ("aten::sum.dim_IntList", "reduction"), ("aten::normal_", "random"),
        ("aten::_softmax", "order of the sum"), ("aten::gelu", "vector library"), ("aten::addcmul_", "fused"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "matrix product"), ("aten::frobnicate", "not known"),
    ],
)  # fmt: skip
def test_causes(op: str, word: str) -> None:
    assert word in survey.cause(op)


def _command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    commands.add_arguments(parser)
    return commands.main(parser.parse_args(list(words)))


def test_command_op(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("op", "aten::_softmax", "--shape", "2,3", "--arg", "1", "--arg", "False", "--dtype", "float64")
    assert _command(*words) == 0
    out = capsys.readouterr().out
    assert "torch.float64 (2, 3)" in out and "provenance:" in out and "torch 2.13.0" in out


def test_command_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert _command("op", "aten::gelux") == 2
    assert "did you mean aten::gelu" in capsys.readouterr().err
    assert _command("op", "aten::relu", "--profile", "m7") == 2
    assert "no profile 'm7'" in capsys.readouterr().err
    assert _command("ops", "no_such_operator") == 1


@pytest.mark.slow
def test_gpt_program(oracle: Oracle) -> None:
    records = survey.survey(oracle)
    counts = survey.summary(records)
    assert counts["compared"] == counts["operators"] >= 40 and counts["same bits"] >= 25
