"""A training script under `densecore run`, on `cpu` with emulation and on `densecore`: the same bits at every step."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples" / "nanogpt"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not beside the tests", allow_module_level=True)
sys.path[:0] = [str(EXAMPLES)]
import bit_exact  # noqa: E402

SIZES = "--layers 2 --width 32 --heads 2 --block 16 --batch 4 --dropout 0.2 --sample 20 --quiet".split()
CHECKOUT = os.environ.get("DENSECORE_NANOGPT", "")


def train(python: Any, folder: Path, device: str, *options: str) -> tuple[dict[str, Any], list[str]]:
    """Runs the tree's own train.py, watched; returns the record and what it printed."""
    folder.mkdir(exist_ok=True)
    script = [str(EXAMPLES / "train.py"), "--device", device, *SIZES, "--out", str(folder / "checkpoint.pt"), *options]
    launcher = ["-m", "torch_densecore.cli", "run", *bit_exact.SIDES[device], "--uncertified", "error", "--"]
    out = python(*launcher, str(EXAMPLES / "watch.py"), str(folder / "record.json"), *script).stdout
    return json.loads((folder / "record.json").read_text()), out.splitlines()


def test_training_and_resume_on_both_devices(python: Any, tmp_path: Path) -> None:
    records = {}
    for device in ("cpu", "densecore"):
        first = train(python, tmp_path / device, device, "--steps", "3")
        rest = train(python, tmp_path / device, device, "--steps", "5", "--resume", str(tmp_path / device / "checkpoint.pt"))
        records[device] = [first, rest]
    assert records["cpu"] == records["densecore"]
    (first, printed), (rest, _) = records["cpu"]
    assert len(first["steps"]) == 3 and len(rest["steps"]) == 2 and len(printed) >= 2
    assert len({step["weights"] for step in [*first["steps"], *rest["steps"]]}) == 5
    assert rest["steps"][0]["weights"] == first["end"]["weights"]


def test_comparison_notices_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    step = {"weights": "a", "gradients": "b"}
    record = {"steps": [step, step], "random": "c", "printed": ["loss 4"], "end": {"weights": "d", "optimizer": "e"}}
    run = {part: record for part in bit_exact.PARTS}
    assert bit_exact.compare("same", run, run) == 0
    other = {**run, "train": {**record, "steps": [{**step, "weights": "z"}, step], "printed": []}}
    assert bit_exact.compare("other", other, run) == 2
    assert "initial weights DIFFER" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not CHECKOUT, reason="DENSECORE_NANOGPT does not name a nanoGPT checkout")
def test_unmodified_nanogpt_has_the_certificate_s_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bit_exact.main([CHECKOUT, "--work", str(tmp_path)]) == 0
    assert "bit for bit the reference, on both devices" in capsys.readouterr().out
