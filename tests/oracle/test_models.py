"""Models beyond the certified ops on the device: their bits, what served them, what was modelled."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("torch_densecore._C") is None:
    pytest.skip("the extension is not built", allow_module_level=True)
sys.path[:0] = [str(Path(__file__).parents[2] / "examples")]
models = pytest.importorskip("oracle_models", reason="the examples are not beside the tests")

from torch_densecore import strictness  # noqa: E402
from torch_densecore.oracle import Oracle  # noqa: E402
from torch_densecore.oracle.report import Report  # noqa: E402


@pytest.mark.parametrize("name", sorted(models.PROGRAMS))
def test_training_has_the_bits_of_the_wheel(oracle: Oracle, name: str) -> None:
    if name == "transformers":
        pytest.importorskip("transformers")
    program = models.PROGRAMS[name]
    ours, report = models.on_device(program, 2)
    theirs, _ = models.in_wheel(program, 2, oracle)
    assert ours.losses[0] != ours.losses[1] and len(ours.gradients[0]) > 5
    assert models.differences(ours, theirs) == 0
    assert set(report.tiers()) <= {"kernel", "exact", "oracle", "view", "composite"}


def test_convolutions_run_in_the_wheel_and_say_what_was_modelled(oracle: Oracle) -> None:
    _, report = models.on_device(models.PROGRAMS["convnet"], 1)
    served = report.ops["aten::convolution_backward"]
    assert served.calls["oracle"] == 4 and served.modelled == {"sgemm"}
    assert report.ops["aten::native_batch_norm"].modelled == set()
    assert report.modelled() == {"sgemm"}
    assert any(line.startswith("  aten::convolution 4, modelled: sgemm") for line in report.lines())


def test_another_seed_is_noticed(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    program = models.PROGRAMS["convnet"]
    ours, _ = models.on_device(program, 1)
    monkeypatch.setattr(models, "SEED", 8)
    assert models.differences(ours, models.in_wheel(program, 1, oracle)[0]) > 0


def test_a_report_needs_a_strict_mode() -> None:
    with strictness.uncertified("host"), pytest.raises(ValueError, match="host"), Report():
        pass


def test_views_and_composites() -> None:
    with strictness.uncertified("error"), Report() as report:
        x = torch.ones(2, 3, device="densecore")
        torch.exp(x.t()).clone()
    assert report.ops["aten::t"].calls == {"view": 1}
    assert report.ops["aten::exp"].calls == {"kernel": 1}
    assert report.ops["aten::clone"].calls == {"composite": 1}
    assert "oracle" not in report.tiers()
