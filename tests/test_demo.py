"""The demo's first steps, against the certificate that the reference wheel made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent.parent / "examples")]
demo_bit_exact = pytest.importorskip("demo_bit_exact", reason="the examples are not beside the tests")


def test_steps_are_the_reference_s(capsys):
    assert demo_bit_exact.main(["--steps", "3", "--no-host"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "bit for bit the reference: 3 steps"
    assert sum("lossdiff=0 grads_off=0 params_off=0" in line for line in lines) == 3


def test_another_stream_is_noticed(monkeypatch, capsys):
    monkeypatch.setattr(demo_bit_exact, "SEED", demo_bit_exact.SEED + 1)
    assert demo_bit_exact.main(["--steps", "1", "--no-host"]) == 1
    assert "differences from the reference" in capsys.readouterr().out


@pytest.mark.slow
def test_all_steps_the_evaluation_and_the_sample(capsys):
    assert demo_bit_exact.main([]) == 0
    assert "tokens_off=0" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.oracle
def test_live_step():
    assert demo_bit_exact.main(["--steps", "2", "--live", "1", "--no-host"]) == 0
