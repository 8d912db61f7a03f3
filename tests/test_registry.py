"""Tiers, strictness, the CPU-draw hook, CPU emulation, coverage, and the launcher."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_densecore
from torch_densecore import _C, coverage, emulate, registry
from torch_densecore.cli import main

D = "densecore"
# no kernel, no certificate: a special function that only the host computes
UNCERTIFIED = torch.special.bessel_y1
NAME = "aten::special_bessel_y1"


def test_declared_kernels_are_those_of_the_extension() -> None:
    built = {name for name, _ in _C.own_kernels()}
    declared = {name for name, op in registry.load().items() if op.kernel}
    assert built - declared == set(), "kernels without a declaration in torch_densecore/ops"
    assert declared - built == set(), "declarations without a kernel in csrc/aten"


def test_declared_ops_exist_and_have_reasons() -> None:
    known = {name for name, _ in _C.device_ops()} | {name for name, _ in _C.own_kernels()}
    for name, op in registry.load().items():
        assert name in known or torch._C._dispatch_has_kernel(name), f"{name} is not an op of this torch"
        assert not (op.kernel & op.exact), name
        assert op.reasons or op.sources, f"{name} says neither why nor from where"


def test_tiers_per_dtype() -> None:
    add = registry.get("aten::add.Tensor")
    assert add.tier(torch.int64) == registry.EXACT and add.tier(torch.complex64) == registry.UNCERTIFIED
    assert registry.get(NAME).tier() == registry.UNCERTIFIED
    assert _C.exact("aten::add.Tensor") & _C.exact("aten::bitwise_not") == _C.exact("aten::bitwise_not")


def test_error_mode_names_op_dtype_profile_and_ways_on() -> None:
    with torch_densecore.uncertified("error"):
        with pytest.raises(torch_densecore.UncertifiedOpError) as caught:
            UNCERTIFIED(torch.ones(3, device=D))
        (torch.ones(3, dtype=torch.int64, device=D) + 1).tolist()  # exact: runs
    text = str(caught.value)
    for word in (NAME, "float32", "densecore", "threads", "DENSECORE_UNCERTIFIED=host", "set_uncertified", "densecore coverage"):
        assert word in text
    assert isinstance(caught.value, NotImplementedError)


def test_error_mode_in_backward() -> None:
    class Uncertified(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return UNCERTIFIED(grad)

    with torch_densecore.uncertified("error"), pytest.raises(torch_densecore.UncertifiedOpError, match=NAME):
        Uncertified.apply(torch.ones(3, device=D, requires_grad=True)).backward(torch.ones(3, device=D))


def test_warn_mode_warns_once_per_op_and_dtype() -> None:
    with torch_densecore.uncertified("warn"), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            UNCERTIFIED(torch.ones(3, device=D))
        UNCERTIFIED(torch.ones(3, device=D, dtype=torch.float64))
    texts = [str(w.message) for w in seen if NAME in str(w.message)]
    assert len(texts) == 2 and "float32" in texts[0] and "float64" in texts[1]


def test_host_mode_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(UNCERTIFIED(torch.ones(3, device=D)).cpu(), UNCERTIFIED(torch.ones(3)))


def test_a_python_number_has_no_dtype_of_its_own() -> None:
    with torch_densecore.uncertified("error"):
        assert (torch.arange(3, device=D) * 2).tolist() == [0, 2, 4]
        assert (torch.ones(3, device=D) * 0.5).tolist() == [0.5, 0.5, 0.5]


def test_modes_by_environment(python: Any) -> None:
    text = "import torch, torch_densecore as d; print(d.get_uncertified())"
    assert python("-c", text, DENSECORE_UNCERTIFIED="error").stdout.strip() == "error"
    assert python("-c", text, DENSECORE_UNCERTIFIED="").stdout.strip() == torch_densecore.strictness.DEFAULT
    failed = python("-c", text, DENSECORE_UNCERTIFIED="maybe", check=False)
    assert failed.returncode != 0 and "unknown mode 'maybe'" in failed.stderr
    with pytest.raises(ValueError, match="expected one of error, warn, oracle, host"):
        torch_densecore.set_uncertified("maybe")


# CPU draws and emulation


@pytest.mark.parametrize("draw", ["torch.randn(20)", "torch.nn.Linear(3, 2).weight.data", "torch.empty(3).exponential_()"])
def test_cpu_draws_are_reported_once(python: Any, draw: str) -> None:
    text = """
import warnings, torch, torch_densecore
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    torch.rand(3).to("densecore"); torch.randperm(9).to("densecore")     # alike on every host
    assert not seen, seen
    x = DRAW
    assert not seen
    x.to("densecore"); x.to("densecore"); torch.randn(20).to("densecore")
texts = [str(w.message) for w in seen if "random draw" in str(w.message)]
assert len(texts) == 1, texts
for word in ("densecore run", "DENSECORE_EMULATE_CPU=random", "emulate_cpu", "accept_cpu_draws"):
    assert word in texts[0], texts[0]
"""
    python("-c", text.replace("DRAW", draw), DENSECORE_UNCERTIFIED="warn")


def test_cpu_draws_are_an_error_in_strict_mode() -> None:
    x = torch.randn(20)
    with torch_densecore.uncertified("error"):
        for _ in range(2):
            with pytest.raises(torch_densecore.UncertifiedOpError, match="random draw"):
                x.to(D)
        torch_densecore.accept_cpu_draws()
        x.to(D)


def test_counting_changes_no_bit(python: Any) -> None:
    text = """
import hashlib, torch
torch.manual_seed(5)
x = [torch.empty(n).normal_(1, 2) for n in (0, 3, 15, 16, 17, 1000)] + [torch.empty(40).log_normal_(), torch.empty(40).cauchy_()]
x += [torch.empty(40).exponential_(2), torch.empty(40).geometric_(0.3), torch.nn.init.trunc_normal_(torch.empty(50))]
x += [torch.rand(3), torch.empty(50).uniform_(-2, 3)]
print(hashlib.sha256(b"".join(t.numpy().tobytes() for t in x)).hexdigest())
"""
    plain = python("-c", text, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout
    assert python("-c", f"import torch_densecore{text}", TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout == plain


def test_emulation_goes_and_comes_back() -> None:
    ops = emulate.available()
    if "aten::normal_" not in ops:
        pytest.skip("this build has no kernel for normal_")

    def draw(device: str = "cpu") -> torch.Tensor:
        torch.manual_seed(2)
        return torch.empty(1000, device=device).normal_().cpu()

    plain, own = draw(), draw(D)
    with torch_densecore.emulate_cpu("random"):
        assert torch.equal(draw(), own)
        with torch_densecore.emulate_cpu("normal_"):
            assert torch.equal(draw(), own)
        assert torch.equal(draw(), own)
        assert "aten::normal_" in emulate.emulated()
        before = _C.host_draws()
        draw()
        assert _C.host_draws() == before  # the reference's bits need no report
        # a dtype that our kernel does not claim reaches torch's own kernel, not ours again
        assert torch.empty(20, dtype=torch.float64).normal_().dtype == torch.float64
    assert torch.equal(draw(), plain) and emulate.emulated() == []
    decorated = torch_densecore.emulate_cpu("random")(draw)
    assert torch.equal(draw(), plain) and torch.equal(decorated(), own) and torch.equal(draw(), plain)
    with pytest.raises(RuntimeError, match="inside"), torch_densecore.emulate_cpu("normal_"):
        raise RuntimeError("inside")
    assert torch.equal(draw(), plain)


def test_emulation_refuses_what_it_cannot_do() -> None:
    for word in ("no_such_op", "aten::empty.memory_format", NAME):
        with pytest.raises(ValueError, match="nothing to emulate"):
            torch_densecore.emulate_cpu(word)
    assert emulate.emulated() == []


# command line


def test_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--json", "add.Tensor", "view", "special_bessel_y1"]) == 0
    rows = {row["op"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["aten::view"]["tier"] == "kernel" and rows[NAME]["tier"] == "uncertified"
    assert "integer arithmetic" in rows["aten::add.Tensor"]["reason"]
    assert main(["coverage", "--dtype", "int64", "bitwise_not"]) == 0
    assert "exact" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no op of the device matches"):
        main(["coverage", "nothing_like_it"])
    assert coverage.describe_dtypes(set(registry.INTEGRAL)) == "integers, bool"


SCRIPT = """
import sys, torch
import neighbour
print(sys.argv[1:], __name__, __file__ == sys.argv[0], torch.ones(2, device="densecore").tolist(), neighbour.value)
if sys.argv[1:2] == ["fail"]: sys.exit(7)
"""


def test_run(python: Any, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "neighbour.py").write_text("value = 5")
    script = str(tmp_path / "script.py")
    launcher = ("-m", "torch_densecore.cli", "run", "--emulate-cpu", "none")
    out = python(*launcher, "--", script, "a", "--device=densecore").stdout
    assert out.strip() == "['a', '--device=densecore'] __main__ True [1.0, 1.0] 5"
    assert python(*launcher, "--", script, "fail", check=False).returncode == 7
    module = python(*launcher, "--", "-m", "json.tool", "--help").stdout
    assert "json" in module
    missing = python(*launcher, "--", "missing.py", check=False)
    assert missing.returncode == 2 and "no such file" in missing.stderr
    assert python(*launcher, check=False).returncode == 2


def test_run_sets_the_modes(python: Any, tmp_path: Path) -> None:
    script = tmp_path / "modes.py"
    script.write_text("import torch_densecore as d, torch_densecore.profile as p; print(d.get_uncertified(), p.current().torch)")
    options = ("--emulate-cpu", "none", "--uncertified", "error", "--profile", "2.8.0")
    out = python("-m", "torch_densecore.cli", "run", *options, "--", str(script))
    assert out.stdout.split() == ["error", "2.8.0"]


def test_tensors_print_in_strict_mode() -> None:
    """torch formats numbers with extremes in double: without those, no tensor could be looked at."""
    torch_densecore.set_uncertified("error")
    for values in ([0.25, -1e-7, 3e8], [-0.0, 0.0], [float("nan"), float("-inf"), 1.0], [3, -4]):
        x = torch.tensor(values)
        assert repr(x.to("densecore")) == repr(x).replace(")", ", device='densecore:0')")
