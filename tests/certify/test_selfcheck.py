"""`densecore selfcheck`: it finds a difference where there is one, and says what it compared with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from torch_densecore import cli, selfcheck

OPS = ["aten::exp", "aten::mm", "aten::sum.dim_IntList", "aten::normal_"]


def test_this_host_gives_the_stored_digests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selfcheck", "--against", "stored", *OPS]) == 0
    out = capsys.readouterr().out
    assert "against stored digests of the emulated reference wheel" in out
    assert f"{len(selfcheck.certified(OPS))} ops and dtypes" in out
    assert " 0 off, 0 with a problem" in out


WITHOUT_ORACLE = """
import sys
sys.modules["unicorn"] = sys.modules["llvmlite"] = None  # as where the extra is not installed
from torch_densecore import cli
print(cli.main(["selfcheck", "--against", "stored", "aten::exp"]), cli.main(["selfcheck", "--against", "cpu", "aten::neg"]))
"""


def test_the_oracles_extra_is_not_needed(python: Callable) -> None:
    assert python("-c", WITHOUT_ORACLE).stdout.splitlines()[-1] == "0 0"


def test_another_result_is_reported(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stored = json.loads(selfcheck.STORED.read_text())
    stored["ops"]["aten::exp"]["float32"]["results"] = "0" * 16
    changed = tmp_path / "selfcheck.json"
    changed.write_text(json.dumps(stored))
    monkeypatch.setattr(selfcheck, "STORED", changed)
    assert cli.main(["selfcheck", "--against", "stored", "aten::exp"]) == 1
    assert "aten::exp float32: the results' digest is not the reference's" in capsys.readouterr().out


def test_what_is_not_compared_is_no_success(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    empty = tmp_path / "selfcheck.json"
    empty.write_text('{"ops": {}}')
    monkeypatch.setattr(selfcheck, "STORED", empty)
    assert cli.main(["selfcheck", "--against", "stored", "aten::exp"]) == 1
    assert "not compared: aten::exp float32: no stored digest" in capsys.readouterr().out


def test_writing_some_operators_keeps_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = tmp_path / "selfcheck.json"
    written.write_text(json.dumps({"ops": {"aten::neg": {"float32": "kept"}, "aten::exp": {"float32": "old"}}}))
    monkeypatch.setattr(selfcheck, "STORED", written)
    monkeypatch.setattr(selfcheck, "stored_entry", lambda op, dtype: f"{op} {dtype}")
    assert cli.main(["selfcheck", "--write", "aten::exp"]) == 0
    ops = json.loads(written.read_text())["ops"]
    assert ops["aten::neg"] == {"float32": "kept"} and ops["aten::exp"]["float32"] == "aten::exp float32"


@pytest.mark.skipif(selfcheck.is_reference_machine(), reason="here the CPU is the reference")
def test_this_hosts_cpu_is_seen_to_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["selfcheck", "--against", "cpu", "aten::exp"]) == 1
    out = capsys.readouterr().out
    assert "This is no Mac" in out
    assert "of " in out and "elements differ" in out


def test_the_digest_knows_zeros_and_not_the_payload_of_nan() -> None:
    def of(*words: int) -> str:
        return selfcheck.digest(torch.tensor(words, dtype=torch.int32).view(torch.float32)).hexdigest()

    assert of(0x7FC00000, 1) == of(-0x400000, 1)  # NaN of either sign
    assert of(0) != of(-0x80000000)
    assert selfcheck.digest(torch.zeros(2, 3)).hexdigest() != selfcheck.digest(torch.zeros(3, 2)).hexdigest()
