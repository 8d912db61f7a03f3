"""What the device claims is certified: every declared operator, and every operator that a GPT dispatches, nested ones too."""

from __future__ import annotations

import importlib.util
import io
import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import torch_densecore
from torch_densecore import registry
from torch_densecore.certify import certificates, specs
from torch_densecore.certify.comparison import resolve

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "nanogpt"))
from gpt import GPT, Config  # noqa: E402

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch_densecore._C") is None, reason="the extension is not built")
DECLARED = sorted(registry.load())
# how the profiler calls dtypes
PROFILER_DTYPES = {"float": "float32", "long int": "int64", "bool": "bool", "int": "int32", "double": "float64"}
ROOT = Path(__file__).resolve().parents[2]


def certified(op: str) -> dict[str, str]:
    """The dtypes of an operator whose whole sweep showed nothing off, with the mode."""
    return {c.dtype: c.mode for c in certificates.load(op) if c.off == 0 and c.mode != "quick" and not c.shard}


def refuses(op: str, dtype: torch.dtype) -> bool:
    """Whether torch's own CPU operator raises for all inputs of a dtype, so that there is nothing to compare."""
    for case in specs.spec(op).cases(dtype, quick=True):
        call = case()
        try:
            resolve(op)(*call.args, **call.kwargs)
        except (RuntimeError, IndexError, NotImplementedError, TypeError):
            continue
        return False
    return True


@pytest.mark.parametrize("op", DECLARED)
def test_every_declared_operator_is_certified(op: str) -> None:
    """At least one dtype, and float32 where a kernel claims it; `densecore certify --missing` sweeps other dtypes."""
    if op in specs.NOT_SWEPT:
        assert op not in specs.SPECS and specs.NOT_SWEPT[op]
        return
    have = certified(op)
    assert have, f"{op} is declared, but no sweep of it is stored: run `densecore certify {op}`"
    if torch.float32 in registry.get(op).kernel and torch.float32 in specs.spec(op).dtypes:
        assert "float32" in have or refuses(op, torch.float32)


@pytest.mark.parametrize("op", DECLARED)
def test_every_kernel_is_swept_at_the_profiles_thread_counts(op: str) -> None:
    for certificate in certificates.load(op):
        if certificate.mode == "full" and len(certificate.threads) > 1:
            assert certificate.threads == [1, 2, 3, 4, 6, 8, 10, 12], certificate.text()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.stack([torch.randint(17, (17,)) for _ in range(3)])
    return tokens[:, :-1].to("densecore"), tokens[:, 1:].to("densecore")


def train(model: GPT, optimizer: torch.optim.Optimizer, accumulate: int, clip: float) -> None:
    for _ in range(accumulate):
        (model(*batch())[1] / accumulate).backward()
    if clip:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def train_evaluate_resume_and_sample(config: Config, accumulate: int = 1, clip: float = 1.0) -> None:
    """What nanoGPT's train.py and sample.py do, on the device."""
    with torch.device("densecore"):
        model, resumed = GPT(config), GPT(config)
    optimizer = model.optimizer()
    train(model, optimizer, accumulate, clip)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location="densecore", weights_only=True)
    resumed.load_state_dict(saved["model"])
    optimizer = resumed.optimizer()
    optimizer.load_state_dict(saved["optimizer"])
    train(resumed, optimizer, accumulate, clip)
    resumed.eval()
    with torch.no_grad():
        losses = torch.stack([resumed(*batch())[1] for _ in range(2)])
    assert losses.mean().isfinite().item()
    resumed.generate(torch.zeros((1, 1), dtype=torch.long, device="densecore"), 5)


def reached(program: Callable[[], None]) -> dict[str, set[str]]:
    """Every operator that the program dispatched, inside of others too, with the dtypes of its tensors."""
    names = torch._C._profiler._ExperimentalConfig(capture_overload_names=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, experimental_config=names) as seen:
        program()
    found: dict[str, set[str]] = {}
    for event in seen.profiler.kineto_results.events():
        if event.name().startswith("aten::"):
            name = ".".join(filter(None, (event.name(), event.overload_name())))
            found.setdefault(name, set()).update(PROFILER_DTYPES[d] for d in event.dtypes() if d in PROFILER_DTYPES)
    return found


def test_all_that_a_gpt_dispatches_is_certified() -> None:
    """Dropout, flash attention and bias on and off, weight tying, clipping, accumulation, evaluation, resume, sampling."""
    from torch_densecore import _C

    def program() -> None:
        for flash, bias, dropout in itertools.product((True, False), (True, False), (0.0, 0.2)):
            config = Config(vocab=17, block=16, layers=2, heads=2, width=32, flash=flash, bias=bias, dropout=dropout)
            train_evaluate_resume_and_sample(config, accumulate=2 if bias else 1, clip=1.0 if flash else 0.0)

    torch.zeros(1).to("densecore")  # from here on draws on the CPU are told apart
    torch_densecore.accept_cpu_draws()
    with torch_densecore.uncertified("error"):
        seen = reached(program)
    device_ops = {name for name, _ in _C.device_ops()}
    own = {op: dtypes for op, dtypes in seen.items() if op in device_ops}
    assert len(own) > 60
    assert {"aten::mm", "aten::native_layer_norm_backward", "aten::multinomial", "aten::bernoulli_.float"} <= set(own)
    problems = []
    for op, dtypes in own.items():
        if op in specs.NOT_SWEPT:
            continue
        if registry.get(op).tier() == registry.UNCERTIFIED:
            problems.append(f"{op} is neither kernel nor exact")
        elif not certified(op) or (dtypes and not dtypes & set(certified(op))):  # lists of tensors show no dtype
            problems.append(f"{op} has no certificate for {sorted(dtypes)}")
    assert not problems, "\n".join(problems)


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    from torch_densecore.cli import main

    assert main(["certificates", "--markdown"]) == 0
    page = (ROOT / "docs" / "certified.md").read_text(encoding="utf-8")
    assert page == capsys.readouterr().out, "write it anew: densecore certificates --markdown > docs/certified.md"
