"""Emulation of `device="cpu"`: absent when off, the device's bits and strictness when on, torch's own kernels when left."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from op_sequence import Recorder
from torch import nn
from torch.nn import functional as F

import torch_densecore
from torch_densecore import _C, emulate, trace
from torch_densecore.certify import bits

D = "densecore"
UNCERTIFIED = torch.special.bessel_y1


def dumps() -> dict[str, str]:
    """What the dispatcher has registered, for every op."""
    return {name: torch._C._dispatch_dump(name) for name in torch._C._dispatch_get_all_op_names()}


def draw(device: str = "cpu") -> torch.Tensor:
    torch.manual_seed(2)
    return torch.empty(1000, device=device).normal_().cpu()


def program(device: str) -> list[torch.Tensor]:
    """Products, reductions, functions, draws, conversions and a backward pass; results on the CPU."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(33, 20), nn.GELU(), nn.LayerNorm(20), nn.Dropout(0.3), nn.Linear(20, 7)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = torch.randn(50, 33, device=device), torch.randint(7, (50,), device=device)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    out = [*model.parameters(), *(p.grad for p in model.parameters())]
    out += [x.std(), x.exp().sum(0), F.mse_loss(x, x * 3), x.softmax(-1)]
    out += [(x * 1e30).to(torch.int32), torch.multinomial(x.softmax(-1), 5), x.sort(0).indices]
    return [t.detach().cpu() for t in out]


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return all(bits.same(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.fixture
def strict() -> Iterator[None]:
    with torch_densecore.uncertified("error"):
        yield


# absent when off

ABSENT = """
import hashlib, json, sys, torch
ours = "dense" + "core"  # a script with the device's name in it has its draws counted
table = {}
for name in torch._C._dispatch_get_all_op_names():
    lines = torch._C._dispatch_dump_table(name).splitlines()
    table[name] = [line.split("registered at")[0] for line in lines if "PrivateUse1" not in line and "registered at" in line]
    for line in torch._C._dispatch_dump(name).splitlines():
        cpu = line.startswith(("CPU", "SparseCPU", "QuantizedCPU", "MkldnnCPU", "AutogradCPU"))
        assert not cpu or ours not in line, (name, line)
torch.manual_seed(5)
x = torch.randn(100, 40, requires_grad=True)
y = torch.nn.functional.gelu(x @ torch.empty(40, 30).uniform_(-2, 3)).softmax(-1).log().sum(0)
y.backward(torch.empty(30).exponential_())
parts = [x, x.grad, y, torch.empty(40).log_normal_(), torch.empty(40).cauchy_(), torch.empty(40).geometric_(0.3), torch.rand(3)]
print(hashlib.sha256(b"".join(t.detach().numpy().tobytes() for t in parts)).hexdigest())
print(hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest(), len(table))
print(torch.backends.mkldnn.enabled, torch.get_num_threads(), torch.is_grad_enabled(), "torch_densecore" in sys.modules)
"""


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """A folder that makes `import torch` load the package by itself, as an installed one does."""
    info = tmp_path / "torch_densecore-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_densecore\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_densecore = torch_densecore:_autoload\n")
    return str(tmp_path)


def test_an_installed_package_changes_no_bit_and_no_kernel_of_the_cpu(python: Any, installed: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(ABSENT)
    path = os.pathsep.join([installed, str(Path(torch_densecore.__file__).parent.parent)])
    plain = python(str(script), TORCH_DEVICE_BACKEND_AUTOLOAD="0", PYTHONPATH=path).stdout.split()
    loaded = python(str(script), TORCH_DEVICE_BACKEND_AUTOLOAD="1", PYTHONPATH=path).stdout.split()
    assert plain[-1] == "False" and loaded[-1] == "True"
    assert loaded[:-1] == plain[:-1] and len(plain) == 7


def test_draws_before_the_device_is_named_are_not_lost(python: Any, installed: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    # the name is put together, so that nothing counts from the start on
    script.write_text("""
import os, torch
from torch_densecore import _C, accept_cpu_draws, emulate_cpu, UncertifiedOpError
D = "dense" + "core"
assert not _C.counting_host_draws()
def refused(x):
    try:
        x.to(D)
    except UncertifiedOpError as error:
        return "before the device's first use" in str(error)
    return False
def none(): return not refused(torch.ones(3))
def drawn(): return refused(torch.rand(3))
def reseeded():
    x = torch.randn(3); torch.manual_seed(4)
    return refused(x)
def accepted():
    x = torch.randn(3); accept_cpu_draws()
    return not refused(x)
def emulated():
    with emulate_cpu("random"): x = torch.randn(3); torch.manual_seed(4); x = torch.randn(3)
    return not refused(x)
def both():
    y = torch.randn(3)
    with emulate_cpu("random"): x = torch.randn(3)
    return refused(x)
for case in (none, drawn, reseeded, accepted, emulated, both):
    child = os.fork()  # each in a process that has not used the device
    if child == 0: os._exit(0 if case() and _C.counting_host_draws() else 1)
    print(case.__name__, os.waitpid(child, 0)[1])
""")
    path = os.pathsep.join([installed, str(Path(torch_densecore.__file__).parent.parent)])
    run = python(str(script), TORCH_DEVICE_BACKEND_AUTOLOAD="1", PYTHONPATH=path, DENSECORE_UNCERTIFIED="error")
    assert run.stdout.split() == "none 0 drawn 0 reseeded 0 accepted 0 emulated 0 both 0".split()


# on


@pytest.mark.usefixtures("strict")
def test_a_program_has_the_device_s_bits() -> None:
    plain, device = program("cpu"), None
    torch_densecore.accept_cpu_draws()
    with torch_densecore.emulate_cpu():
        assert not torch.backends.mkldnn.enabled
        emulated = program("cpu")
        device = program(D)  # its weights are drawn on the CPU
    assert same(emulated, device)
    assert not same(emulated, plain), "this host computes as the reference does: the test shows nothing"
    assert torch.backends.mkldnn.enabled and same(program("cpu"), plain)


@pytest.mark.parametrize("op", ["mse_loss", "std", "var_mean", "multinomial", "exp", "mm", "sum", "normal_"])
def test_an_op_emulated_alone_has_the_device_s_bits(op: str) -> None:
    """Also one whose kernel calls another op's kernel, which is not emulated then."""
    x = torch.randn(201, 133)
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "mse_loss": lambda x: F.mse_loss(x, x * 3),
        "std": lambda x: x.std(),
        "var_mean": lambda x: torch.stack(torch.var_mean(x, 1)),
        "multinomial": lambda x: torch.multinomial(x.abs(), 9),
        "exp": torch.exp,
        "mm": lambda x: x @ x.t(),
        "sum": torch.sum,
        "normal_": lambda x: torch.empty_like(x).normal_(),
    }

    def outcome(device: str) -> torch.Tensor:
        torch.manual_seed(1)
        return calls[op](x.to(device)).cpu()

    with torch_densecore.emulate_cpu(op):
        assert all(name.split(".")[0] == f"aten::{op}" for name in emulate.emulated())
        ours = outcome("cpu")
    torch_densecore.accept_cpu_draws()
    assert bits.same(ours, outcome(D))


def test_lists_groups_and_patterns() -> None:
    with torch_densecore.emulate_cpu("@blas", "exp"):
        assert {"aten::mm", "aten::addmm.out", "aten::exp"} <= set(emulate.emulated())
        assert "aten::sum.dim_IntList" not in emulate.emulated()
    with torch_densecore.emulate_cpu("*softmax*"):
        assert "aten::_log_softmax_backward_data" in emulate.emulated()
    for group in ("reduction", "transcendental", "random"):
        with torch_densecore.emulate_cpu(f"@{group}"):
            assert len(emulate.emulated()) > 10
    with pytest.raises(ValueError, match=r"nothing to emulate for '@blass'.*did you mean @blas"):
        torch_densecore.emulate_cpu("@blass")
    with pytest.raises(ValueError, match="did you mean mm"):
        torch_densecore.emulate_cpu("mm", "mmm")
    assert emulate.emulated() == []


def test_conversions_saturate_as_on_arm() -> None:
    x = torch.tensor([3e9, -3e9, float("nan"), 1.5])
    with torch_densecore.emulate_cpu():
        assert x.to(torch.int32).tolist() == [2**31 - 1, -(2**31), 0, 1] == x.to(D).int().tolist()


# strictness


@pytest.mark.usefixtures("strict")
def test_uncertified_ops_raise() -> None:
    ours = torch.ones(3)
    UNCERTIFIED(ours)
    with torch_densecore.emulate_cpu():
        with pytest.raises(torch_densecore.UncertifiedOpError, match=r"aten::special_bessel_y1 .* float32"):
            UNCERTIFIED(ours)
        with pytest.raises(torch_densecore.UncertifiedOpError, match="aten::exp .* float64"):
            ours.double().exp()
        with pytest.raises(torch_densecore.UncertifiedOpError, match="aten::convolution"):
            nn.Conv2d(2, 3, 3)(torch.ones(1, 2, 5, 5))
        with pytest.raises(torch_densecore.UncertifiedOpError, match="BFloat16|bfloat16"):
            ours.bfloat16() @ ours.bfloat16()
    UNCERTIFIED(ours)
    with torch_densecore.emulate_cpu("random", "@blas"):  # a list asks nothing of other ops
        UNCERTIFIED(ours)


@pytest.mark.usefixtures("strict")
def test_other_layouts_raise() -> None:
    sparse, quantized = torch.eye(3).to_sparse(), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with torch_densecore.emulate_cpu():
        calls = (lambda: sparse @ torch.ones(3, 3), sparse.to_dense, lambda: quantized + 1, torch.eye(3).to_sparse)
        for call in calls:
            with pytest.raises(torch_densecore.UncertifiedOpError):
                call()
    assert (sparse @ torch.ones(3, 3)).sum() == 9 and quantized.dequantize().sum() > 2.9


@pytest.mark.usefixtures("strict")
def test_what_a_program_does_beside_computing_runs(tmp_path: Path) -> None:
    with torch_densecore.emulate_cpu():
        x = torch.randn(4, 3)
        assert "tensor(" in repr(x) and "e+10" in repr(torch.tensor([1e10, 2.5]))
        assert x.numpy().shape == (4, 3) and x.tolist() == torch.from_numpy(x.numpy()).tolist()
        torch.save({"x": x}, tmp_path / "x.pt")
        assert torch.equal(torch.load(tmp_path / "x.pt")["x"], x)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=2, shuffle=True)
        assert sum(len(batch[0]) for batch in loader) == 4
        x[0, 0] = float("nan")
        assert x.isnan().any() and not x.isinf().any()


@pytest.mark.usefixtures("strict")
def test_strictness_in_backward() -> None:
    class Uncertified(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return UNCERTIFIED(grad)

    x = torch.ones(3, requires_grad=True)
    with torch_densecore.emulate_cpu(), pytest.raises(torch_densecore.UncertifiedOpError, match="bessel"):
        Uncertified.apply(x).backward(torch.ones(3))
    Uncertified.apply(x).backward(torch.ones(3))
    assert torch.equal(x.grad, UNCERTIFIED(torch.ones(3)))


def test_warn_and_host_modes() -> None:
    x = torch.rand(5)
    with torch_densecore.emulate_cpu():
        assert torch.equal(UNCERTIFIED(x), UNCERTIFIED(x.to(D)).cpu())
        with torch_densecore.uncertified("warn"), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            UNCERTIFIED(x)
            UNCERTIFIED(x)
    assert len([w for w in seen if "bessel" in str(w.message)]) == 1


def test_oracle_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle gets the op's CPU tensors; what it calls on the CPU itself asks for no oracle."""
    seen = []

    def wheel(name: str, overload: str, args: tuple[Any, ...]) -> Any:
        seen.append((name, overload, args[0].device.type))
        return UNCERTIFIED(args[0]) + 1

    _C.attach_oracle(wheel)
    try:
        with torch_densecore.uncertified("oracle"), torch_densecore.emulate_cpu():
            got = UNCERTIFIED(torch.ones(2))
    finally:
        torch_densecore.strictness.apply()
        torch_densecore.set_uncertified("host")
    assert seen == [("aten::special_bessel_y1", "", "cpu")]
    assert torch.equal(got, UNCERTIFIED(torch.ones(2)) + 1)


@pytest.mark.oracle
@pytest.mark.slow
def test_oracle_mode_gives_the_wheel_s_bits() -> None:
    from torch_densecore.oracle import tier

    x = torch.rand(40) * 9
    expected = tier.run("aten::special_bessel_y1", "", (x,))
    with torch_densecore.uncertified("oracle"), torch_densecore.emulate_cpu():
        assert bits.same(UNCERTIFIED(x), expected)


def test_inductor_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    with torch_densecore.emulate_cpu():
        with pytest.raises(NotImplementedError, match="compile=False"):
            torch._TorchCompileInductorWrapper("default", None, None)(None, [])
        eager = torch.compile(function, backend="eager")(torch.ones(3))
    assert bits.same(eager, function(torch.ones(3, device=D)).cpu())


# off again


def test_leaving_restores_exactly() -> None:
    _C.count_host_draws()  # as in any program that uses the device
    before = dumps()
    with torch_densecore.emulate_cpu():
        assert dumps() != before
        with torch_densecore.emulate_cpu("random"), torch_densecore.emulate_cpu():
            program("cpu")
        assert "aten::normal_" in emulate.emulated()
    assert dumps() == before
    with pytest.raises(ZeroDivisionError), torch_densecore.emulate_cpu():
        raise ZeroDivisionError
    assert dumps() == before


def test_forms() -> None:
    plain, own = draw(), draw(D)
    assert not torch.equal(plain, own)
    call = torch_densecore.emulate_cpu("random")
    assert torch.equal(draw(), own)
    call.restore()
    call.restore()
    assert torch.equal(draw(), plain)
    for _ in range(2):  # one object, several times, and within itself
        with call:
            assert torch.equal(draw(), own)
            with call:
                assert torch.equal(draw(), own)
            assert torch.equal(draw(), own)
        assert torch.equal(draw(), plain)

    @torch_densecore.emulate_cpu("random")
    def function() -> torch.Tensor:
        return draw()

    @torch_densecore.emulate_cpu("random")
    def generator() -> Iterator[torch.Tensor]:
        yield draw()
        yield draw()

    @torch_densecore.emulate_cpu("random")
    async def coroutine() -> torch.Tensor:
        await asyncio.sleep(0)
        return draw()

    assert torch.equal(draw(), plain)
    assert torch.equal(function(), own) and torch.equal(asyncio.run(coroutine()), own)
    steps = generator()
    assert torch.equal(next(steps), own) and torch.equal(draw(), plain) and torch.equal(next(steps), own)
    steps.close()
    assert function.__name__ == "function" and emulate.emulated() == []


def test_threads_see_it_and_the_last_one_leaves() -> None:
    plain, own = draw(), draw(D)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with torch_densecore.emulate_cpu("random"):
            entered.set()
            leave.wait(30)

    thread = threading.Thread(target=other)
    with torch_densecore.emulate_cpu("random"):
        thread.start()
        assert entered.wait(30)
    assert torch.equal(draw(), own)
    leave.set()
    thread.join()
    assert torch.equal(draw(), plain)


def test_entering_while_other_threads_compute() -> None:
    """No op fails or mixes two kernels in one result."""
    x = torch.rand(64, 64)
    plain = [x.exp(), x @ x, x.softmax(-1), x * 2]
    with torch_densecore.emulate_cpu():
        own = [x.exp(), x @ x, x.softmax(-1), x * 2]
    stop, wrong = threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            for i, got in enumerate([x.exp(), x @ x, x.softmax(-1), x * 2]):
                if not (torch.equal(got, plain[i]) or torch.equal(got, own[i])):
                    wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        with torch_densecore.emulate_cpu():
            x.exp()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_backward_in_another_thread() -> None:
    def gradient(device: str) -> torch.Tensor:
        x = torch.linspace(-3, 3, 900).to(device).requires_grad_()
        y = F.gelu(x).softmax(-1).log().sum()
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
        return x.grad.cpu()

    own = gradient(D)
    with torch_densecore.emulate_cpu():
        assert bits.same(gradient("cpu"), own)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork() -> None:
    plain, own = draw(), draw(D)
    with torch_densecore.emulate_cpu():
        child = os.fork()
        if child == 0:
            os._exit(0 if torch.equal(draw(), own) else 1)
        assert os.waitpid(child, 0)[1] == 0
    child = os.fork()
    if child == 0:
        with torch_densecore.emulate_cpu("random"):
            first = torch.equal(draw(), own)
        os._exit(0 if first and torch.equal(draw(), plain) else 1)
    assert os.waitpid(child, 0)[1] == 0 and torch.equal(draw(), plain)


# together with the device


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("words", [("random",), ()])
def test_one_stream_for_both(words: tuple[str, ...]) -> None:
    """Draws on the CPU and on the device in turn continue one stream, the kept normal sample included."""

    def draws(devices: tuple[str, str]) -> list[torch.Tensor]:
        torch.manual_seed(11)
        out = []
        for i in range(6):
            device = devices[i % 2]
            out += [
                torch.empty(3, device=device).normal_(), torch.empty(40, device=device).normal_(), torch.rand(5, device=device),
                torch.empty(7, device=device).exponential_(), torch.empty(4, device=device).bernoulli_(0.3),
                torch.randperm(9, device=device), torch.randint(50, (3,), device=device),
                torch.multinomial(torch.ones(6, device=device), 2),
            ]  # fmt: skip
        return [t.cpu() for t in out] + [torch.get_rng_state()]

    with torch_densecore.emulate_cpu(*words):
        alternating, cpu = draws(("cpu", D)), draws(("cpu", "cpu"))
    assert same(alternating, cpu) and same(cpu, draws((D, D)))


@pytest.mark.usefixtures("strict")
def test_traces_of_both_are_equal(tmp_path: Path) -> None:
    def recorded(device: str, name: str) -> Path:
        with trace.record(tmp_path / name):
            program(device)
        return tmp_path / name

    plain = recorded("cpu", "plain.dct")
    torch_densecore.accept_cpu_draws()
    with torch_densecore.emulate_cpu():
        emulated, device = recorded("cpu", "emulated.dct"), recorded(D, "device.dct")
    result = trace.compare(emulated, device)
    assert result.origins == [] and result.verdicts["equal"] > 200, result.verdicts
    result = trace.compare(plain, emulated)
    assert result.origins and ("densecore.emulate_cpu", "", "all") in result.environment


# branches


def test_composite_ops_take_the_reference_s_branches() -> None:
    """With emulation a CPU program dispatches what the device's does, without oneDNN, also where torch would choose oneDNN."""

    def model(device: str) -> None:
        lstm, linear = nn.LSTM(6, 5, batch_first=True).to(device), nn.Linear(5, 4).to(device)
        layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).to(device)
        with torch.no_grad():
            linear(lstm(torch.ones(2, 3, 6).to(device))[0])
        layer(torch.ones(2, 5, 8).to(device)).sum().backward()

    def names(device: str) -> set[str]:
        with Recorder() as recorder:
            model(device)
        return {name for name, _, _ in recorder.calls} - {"aten::_to_copy"}

    plain = names("cpu")
    with torch_densecore.emulate_cpu():
        emulated, device = names("cpu"), names(D)
    assert "aten::mkldnn_rnn_layer" in plain, "torch chooses no oneDNN here: the test shows nothing"
    assert emulated == device and not any("mkldnn" in name for name in emulated)


# by environment and command line

PRINT = """
import torch, torch_densecore, torch_densecore.emulate as emulate
torch.manual_seed(2)
print(torch.empty(1000).normal_().numpy().tobytes().hex()[:64], len(emulate.emulated()) > 30, "aten::mm" in emulate.emulated())
"""


@pytest.mark.parametrize(
    ("value", "most", "mm"),
    [("1", True, True), ("all", True, True), ("random", False, False), ("normal_,@blas", False, True)],
)
def test_environment(python: Any, value: str, most: bool, mm: bool) -> None:
    digest = draw(D).numpy().tobytes().hex()[:64]
    assert python("-c", PRINT, DENSECORE_EMULATE_CPU=value).stdout.split() == [digest, str(most), str(mm)]


def test_environment_refuses_nonsense(python: Any) -> None:
    run = python("-c", PRINT, DENSECORE_EMULATE_CPU="nonsense", check=False)
    assert run.returncode != 0 and "nothing to emulate for 'nonsense'" in run.stderr
    assert python("-c", PRINT, DENSECORE_EMULATE_CPU="0").stdout.split()[1:] == ["False", "False"]


@pytest.mark.parametrize(
    ("options", "most", "mm"),
    [((), False, False), (("--emulate-cpu",), True, True), (("--emulate-cpu=mm",), False, True)],
)
def test_run(python: Any, tmp_path: Path, options: tuple[str, ...], most: bool, mm: bool) -> None:
    (tmp_path / "script.py").write_text(PRINT)
    out = python("-m", "torch_densecore.cli", "run", *options, "--", str(tmp_path / "script.py")).stdout.split()
    assert out[1:] == [str(most), str(mm)]
