"""Certificates as data, sweeps that resume, the command."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from torch_densecore import profile as profiles
from torch_densecore.certify import Call, certificates, compare, sweep
from torch_densecore.certify.certificates import Certificate
from torch_densecore.certify.comparison import Report

pytestmark = pytest.mark.oracle
FILE = "certificates.json"


def _certificate(**changes: object) -> Certificate:
    fields = dict(
        op="aten::exp", dtype="float32", mode="full", inputs=3, elements=10, off=0, both_raised=0, pure_inputs=3,
        provenance=[], profile={"name": "p"}, wheel_sha256="ab",
    )  # fmt: skip
    return Certificate(**{**fields, **changes})  # type: ignore[arg-type]


def test_store_replace_and_withdraw(tmp_path: Path) -> None:
    certificates.store(_certificate(), tmp_path / FILE)
    certificates.store(_certificate(elements=20), tmp_path / FILE)
    certificates.store(_certificate(dtype="float64"), tmp_path / FILE)
    assert [c.elements for c in certificates.load("aten::exp", tmp_path / FILE)] == [20, 10]
    assert certificates.summary("aten::exp", tmp_path / FILE) == "float32 full 20; float64 full 10"
    certificates.withdraw("aten::exp", "float32", tmp_path / FILE)
    assert [c.dtype for c in certificates.load_all(tmp_path / FILE)] == ["float64"]
    certificates.withdraw("aten::exp", "float64", tmp_path / FILE)
    assert not list(certificates.load_all(tmp_path / FILE)) and certificates.summary("aten::exp", tmp_path / FILE) == ""


def test_a_full_sweep_replaces_a_quick_one(tmp_path: Path) -> None:
    certificates.store(_certificate(mode="quick"), tmp_path / FILE)
    certificates.store(_certificate(mode="quick", dtype="float64"), tmp_path / FILE)
    certificates.store(_certificate(mode="exhaustive", passes=["in order"]), tmp_path / FILE)
    assert [(c.dtype, c.mode) for c in certificates.load_all(tmp_path / FILE)] == [
        ("float32", "quick"), ("float32", "exhaustive"), ("float64", "quick"),
    ]  # fmt: skip
    certificates.store(_certificate(), tmp_path / FILE)
    certificates.store(_certificate(mode="quick"), tmp_path / FILE)
    assert [(c.dtype, c.mode) for c in certificates.load_all(tmp_path / FILE)] == [
        ("float32", "full"), ("float32", "exhaustive"), ("float64", "quick"),
    ]  # fmt: skip


def test_files_keep_what_was_stored(tmp_path: Path) -> None:
    stored = [
        _certificate(provenance=["expf"], threads=[1, 2]), _certificate(mode="exhaustive", passes=["in order", "strided"]),
        _certificate(dtype="float64", profile={"name": "q"}), _certificate(dtype="int64", shard="1/3"),
    ]  # fmt: skip
    for certificate in stored:
        certificates.store(certificate, tmp_path / FILE)
    assert certificates.load("aten::exp", tmp_path / FILE) == stored


def test_the_table_adds_up_dtypes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from torch_densecore.cli import main

    for changes in ({"threads": [1, 4]}, {"dtype": "int64", "threads": [2]}, {"mode": "exhaustive", "passes": ["in order"]}):
        certificates.store(_certificate(**changes), tmp_path / FILE)
    certificates.store(_certificate(op="aten::mm", provenance=["sgemm"]), tmp_path / FILE)
    folder = ["--file", str(tmp_path / FILE)]
    assert main(["certificates", *folder, "--json", "exp"]) == 0
    exhaustive, full = json.loads(capsys.readouterr().out)
    assert full["dtypes"] == "float32, int64" and full["elements"] == 20 and full["threads"] == "1 2 4"
    assert exhaustive["mode"] == "exhaustive: in order"
    assert main(["certificates", *folder]) == 0
    assert "2 operators, 4 certificates (1 exhaustive, 3 full, 0 quick); 40 elements compared, 0 off" in capsys.readouterr().out
    assert main(["certificates", *folder, "nothing"]) == 1


def test_a_difference_is_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        certificates.store(_certificate(off=1), tmp_path / FILE)


def test_shards_are_merged(tmp_path: Path) -> None:
    certificates.store(_certificate(shard="1/2", provenance=["expf"]), tmp_path / FILE)
    certificates.store(_certificate(), tmp_path / FILE)
    assert len(certificates.load("aten::exp", tmp_path / FILE)) == 2
    certificates.store(_certificate(shard="2/2", elements=5), tmp_path / FILE)
    (merged,) = certificates.load("aten::exp", tmp_path / FILE)
    assert merged.shard == "" and merged.elements == 15 and merged.provenance == ["expf"] and merged.inputs == 6


def test_certificates_in_the_tree_are_sound() -> None:
    for certificate in certificates.load_all():
        assert certificate.off == 0 and certificate.elements > 0 and len(certificate.wheel_sha256) == 64
        described = profiles.load(certificate.profile["name"]).describe()
        assert certificate.profile.items() <= described.items()  # fields that came later have their defaults


def test_compare_reports_the_first_difference() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])

    def wrong(op: str, call: Call) -> torch.Tensor:
        out = call.args[0].abs()
        out[1] = 2.0000002
        return out

    report = compare("aten::abs", [(x,)], run=wrong)
    assert (report.off, report.elements, report.max_ulp) == (1, 3, 1) and not report.ok
    with pytest.raises(AssertionError, match=r"output 0 at \(1,\): ours 40000001 .* reference 40000000"):
        report.check()
    assert compare("aten::abs", [(x,)], run="cpu").check().off == 0


def test_compare_sees_errors_shapes_and_written_arguments() -> None:
    x = torch.ones(2, 3)
    assert compare("aten::mm", [(x, x)], run="cpu").both_raised == 1
    one_sided = compare("aten::mm", [(x, x)], run=lambda op, call: call.args[0])
    assert "only the reference raised" in one_sided.failures[0]
    shape = compare("aten::abs", [(x,)], run=lambda op, call: call.args[0][:1])
    assert "float32[1, 3], the reference gives float32[2, 3]" in shape.failures[0]
    foreach = compare("aten::_foreach_add_.Scalar", [([x, x.clone()], 1.0)], run="cpu").check()
    assert foreach.elements == 12
    with pytest.raises(AssertionError, match="no call was compared"):
        compare("aten::abs", [], run="cpu").check()


def test_sweep_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.cache, "cache_dir", lambda: tmp_path)
    plan, profile = sweep.Plan("aten::neg", "float32", "quick", "cpu"), profiles.load()
    seen: list[int] = []
    real = sweep.run_task

    def stops_at_the_second(plan: sweep.Plan, start: int, stop: int, profile: profiles.Profile) -> sweep.Tally:
        if len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(start)
        return real(plan, start, stop, profile)

    monkeypatch.setattr(sweep, "run_task", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        sweep.sweep(plan, profile)
    monkeypatch.setattr(sweep, "run_task", lambda *a: seen.append(a[1]) or real(*a))
    tally = sweep.sweep(plan, profile)
    assert seen == [task[0] for task in plan.tasks()] and tally.ok and tally.inputs == len(plan.cases())
    assert not list((tmp_path / "certify").iterdir())


def test_sweep_stops_at_a_difference() -> None:
    plan = sweep.Plan("aten::erf", "float32", "quick", "cpu")
    tally = sweep.sweep(plan, profiles.load())
    assert tally.off and "first: output 0" in tally.problems[0] and tally.inputs < len(plan.cases())


def test_shards_share_the_cases() -> None:
    whole = sweep.Plan("aten::exp", "float32").tasks()
    parts = [sweep.Plan("aten::exp", "float32", shard=(i, 3)).tasks() for i in (1, 2, 3)]
    assert sorted(task for part in parts for task in part) == whole


@pytest.mark.parametrize("text", ["0/2", "3/2", "x", "1/"])
def test_bad_shards(text: str) -> None:
    from torch_densecore.certify.commands import _shard

    with pytest.raises(argparse.ArgumentTypeError, match="expected i/n"):
        _shard(text)


def test_report_text_is_short() -> None:
    report = Report("aten::x", failures=[f"call {i}" for i in range(9)])
    assert "and 4 more" in str(report)
