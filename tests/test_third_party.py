"""Models and modules of published packages: `cpu` with emulation and `densecore` give the same bits, in strict mode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path[:0] = [str(Path(__file__).parent.parent / "examples" / "third_party")]
programs = pytest.importorskip("programs", reason="the examples are not beside the tests")
import proof  # noqa: E402
import run  # noqa: E402

MODELS = {program.name: program for program in programs.models(steps=1)}
MODULES = list(programs.modules())


def needs(program: programs.Program) -> programs.Program:
    if not program.installed:
        pytest.skip(f"package {program.package} is not installed")
    return program


@pytest.mark.parametrize("name", MODELS)
def test_models_on_both_devices(name: str) -> None:
    found = proof.prove(needs(MODELS[name]), oracle=False, limit=0)
    assert not found.blocked, found.blocked
    assert found.ok and found.elements > 1000
    assert sum(tier == "kernel" for tier in found.ops.values()) >= 15


# modules that run must keep running: the number of those that strict mode blocks may only fall
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 8))])
def test_modules_on_both_devices(part: int) -> None:
    found = [proof.prove(program, oracle=False, limit=0) for program in MODULES[part::8]]
    assert [(p.name, p.off) for p in found if not p.ok] == []
    assert sum(not p.blocked for p in found) >= 5


@pytest.mark.oracle
def test_a_model_s_ops_in_the_reference_wheel() -> None:
    found = proof.prove(MODELS["torch.nn LSTM and GRU"], oracle=True, limit=1)
    assert found.ok and found.asked > 25 and found.wheel_elements > 1000 and not found.unasked
    assert "sgemm" in found.modelled


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_ops_in_the_reference_wheel(name: str) -> None:
    found = proof.prove(needs(MODELS[name]), oracle=True, limit=4)
    assert found.ok and found.asked > 25, found.findings


def test_a_difference_and_an_uncertified_op_are_noticed() -> None:
    def program(device: str) -> list[torch.Tensor]:
        return [torch.ones(3, device=device) + (device == "cpu")]

    found = proof.prove(programs.Program("differs", "torch", program), oracle=False, limit=0)
    assert found.off == 3 and not found.ok and "| 3 of 3 |" in run.row(found)
    special = programs.Program("special", "torch", lambda device: [torch.special.bessel_y1(torch.ones(3, device=device))])
    found = proof.prove(special, oracle=False, limit=0)
    assert found.blocked == "aten::special_bessel_y1: float32" and "blocked by" in run.row(found)


@pytest.mark.oracle
def test_a_wrong_result_of_an_op_is_noticed() -> None:
    recorder = proof.Recorder(limit=2)
    with recorder:
        torch.linspace(0, 1, 300)[:200] * 3
    found = proof.Proof("made up")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "emulated", lambda: lambda op, call: call.args[0])  # the input instead of the product
        recorder.calls = {"aten::mul.Tensor": recorder.calls["aten::mul.Tensor"]}
        proof.ask(found, recorder)
    assert found.wheel_off > 100 and found.findings and not found.ok
