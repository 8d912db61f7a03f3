"""A training run, op by op in the reference wheel, translated: it makes the certificate that is in the tree."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parents[3] / "examples")]
demo_bit_exact = pytest.importorskip("demo_bit_exact", reason="the examples are not beside the tests")

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def _certificate(steps: int, translate: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from torch_densecore.oracle import Oracle
    from torch_densecore.oracle.mode import OracleMode

    monkeypatch.setattr(demo_bit_exact, "oracle_mode", lambda: OracleMode(Oracle(translate=translate)))
    return demo_bit_exact.make_certificate(steps)


def test_translated_training_makes_the_stored_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _certificate(50, True, monkeypatch) == json.loads(demo_bit_exact.CERTIFICATE.read_text())


def test_emulated_training_makes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = json.loads(demo_bit_exact.CERTIFICATE.read_text())
    monkeypatch.setattr(demo_bit_exact, "EVAL_BATCHES", 1)
    monkeypatch.setattr(demo_bit_exact, "TOKENS", 2)
    emulated = _certificate(50, False, monkeypatch)
    assert emulated["initial"] == stored["initial"] and emulated["steps"] == stored["steps"]
