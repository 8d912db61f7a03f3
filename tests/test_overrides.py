"""Op-by-op overrides: modes, precedence, nesting, threads, backward, exceptions, module scopes, groups, files, checks, reports."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_densecore
from torch_densecore import _C, override, overrides, profile, registry, strictness
from torch_densecore.cli import main
from torch_densecore.overrides import DifferenceError, OverriddenOpError, OverrideError, check, opnames, rules
from torch_densecore.overrides.precedence import choices_by_op

D = "densecore"


def draws(*shape: int, device: str = D) -> torch.Tensor:
    """Numbers whose sum depends on its order."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(device)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu().view(torch.int32), b.cpu().view(torch.int32))


def hits(context: override) -> list[int]:
    return [rule.hits for rule in context.rules]


@pytest.fixture(autouse=True)
def accepted_draws() -> Iterator[None]:
    torch_densecore.accept_cpu_draws()
    yield
    check.clear()


@pytest.fixture
def own_environment() -> Iterator[None]:
    """A command may change the environment and what is in force."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
    overrides.apply()
    assert overrides.active() == []


# modes


def test_host_gives_the_cpu_kernel_and_afterwards_ours_is_back_exactly() -> None:
    x = draws(300, 300)
    ours, host = x.mm(x), x.cpu().mm(x.cpu())
    before = torch._C._dispatch_dump("aten::mm")
    with override({"aten::mm": "host"}) as context:
        assert same(x.mm(x), host)
        assert torch._C._dispatch_dump("aten::mm") != before
        assert x.mm(x).device.type == D
    assert torch._C._dispatch_dump("aten::mm") == before and same(x.mm(x), ours)
    assert hits(context) == [2]


def test_an_op_that_is_not_overridden_keeps_its_kernel() -> None:
    before = torch._C._dispatch_dump("aten::bmm"), torch._C._dispatch_dump_table("aten::bmm")
    with override({"aten::mm": "host"}):
        assert (torch._C._dispatch_dump("aten::bmm"), torch._C._dispatch_dump_table("aten::bmm")) == before


def test_densecore_is_as_without_override_and_error_raises() -> None:
    x = draws(64, 64)
    ours = x.mm(x)
    with override({"mm": "densecore"}) as context:
        assert same(x.mm(x), ours) and hits(context) == [1]
    with override({"mm": "error"}), pytest.raises(OverriddenOpError, match=r"aten::mm was called.*mm=error \(test_overrides.py:"):
        x.mm(x)


def test_oracle_mode_runs_the_oracle(oracle_stub: Callable[[Any], None]) -> None:
    oracle_stub(lambda name, overload, args: torch.full_like(args[0], 7.0))
    x = draws(4, 4)
    with override({"aten::mm": "oracle"}):
        assert x.mm(x).tolist() == [[7.0] * 4] * 4
        assert x.mm(x).device.type == D


def test_in_place_and_out_forms_write_through() -> None:
    x = draws(50)
    with override({"aten::exp_": "host", "aten::exp.out": "host"}) as context:
        y = x.clone()
        assert y.exp_() is y and same(y, x.cpu().exp())
        out = torch.empty(50, device=D)
        assert torch.exp(x, out=out) is out and same(out, x.cpu().exp())
    assert hits(context) == [1, 1]


def test_a_name_without_overload_means_all_of_them() -> None:
    x = draws(3000)
    with override({"aten::sum": "host"}) as context:
        assert same(x.sum(), x.cpu().sum()) and same(x.sum(0), x.cpu().sum(0))
    assert hits(context) == [2]
    assert opnames.match("aten::mm").ops == ("aten::mm", "aten::mm.out")
    assert opnames.match("mm.default").ops == ("aten::mm",)


def test_ops_of_torch_name_themselves() -> None:
    assert override({torch.ops.aten.add.Tensor: "host"}).rules[0].match.ops == ("aten::add.Tensor",)
    assert override({torch.ops.aten.mm.default: "host"}).rules[0].match.ops == ("aten::mm",)
    assert override({torch.ops.aten.mm: "host"}).rules[0].match.ops == ("aten::mm", "aten::mm.out")
    with pytest.raises(OverrideError, match="named by text"):
        override({3: "host"})


# profile fields


def test_fields_run_the_kernel_under_another_profile() -> None:
    x = draws(200_000)
    usual = x.sum()
    with profile.use(threads=1):
        one = x.sum()
    assert not same(usual, one)
    with override({"aten::sum": {"threads": 1}}):
        assert same(x.sum(), one)
        with override("sum={mode=check:host:log,threads=4}"):
            assert same(x.sum(), usual)
    with override("sum={threads=1}"):
        assert same(x.sum(), one)
    assert same(x.sum(), usual)


def test_fields_follow_the_profile_in_force() -> None:
    slot = override({"aten::sum": {"threads": 2}})
    x = draws(200_000)
    with profile.use(threads=2):
        two = x.sum()
    with slot, profile.use(threads=8):
        assert same(x.sum(), two)


def test_fields_are_put_into_what_a_probe_says_of_the_op() -> None:
    """A probed machine that sums in 8 lanes: an override of the threads keeps the lanes."""
    x = draws(200_000).reshape(400, 500)
    with profile.use(lanes=8, threads=1):
        expected = x.sum(1)
    assert not same(x.sum(1), expected)
    probed = {"system": "linux-x86_64", "threads": 2, "ops": {"aten::sum*": {"lanes": 8}, "aten::mean*": {"unknown": "made up"}}}
    slots = override({"aten::sum": {"threads": 1}, "aten::mean": {"threads": 1}})
    with profile.use(profile.from_dict(probed)), slots:
        assert same(x.sum(1), expected)
        torch_densecore.set_uncertified("error")
        with pytest.raises(torch_densecore.UncertifiedOpError, match="made up"):
            x.mean(1)
    with profile.use(lanes=4, threads=1), slots:
        assert not same(x.sum(1), expected)


def test_fields_that_an_op_does_not_heed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OverrideError, match="mm does not heed threads: its kernel heeds"):
        override({"aten::mm": {"threads": 2}})
    with pytest.raises(OverrideError, match=r"unknown profile field 'thread'; did you mean threads\?"):
        override({"aten::sum": {"thread": 2}})
    assert str(override("mm={blas=accelerate}").rules[0]) == "mm={blas=accelerate}"
    with pytest.raises(OverrideError, match="unknown blas model 'acelerate'; known: accelerate"):
        override("mm={blas=acelerate}")
    with pytest.raises(OverrideError, match="threads must be 1..1024"):
        override({"aten::sum": {"threads": 0}})
    with pytest.raises(OverrideError, match="which mode 'host' does not run"):
        override({"aten::sum": {"threads": 2, "mode": "host"}})
    monkeypatch.setenv("DENSECORE_KERNELS", "off")
    with pytest.raises(OverrideError, match="no kernel of ours runs"):
        override({"aten::sum": {"threads": 2}})
    monkeypatch.undo()
    heeding = override({"@reduction": {"threads": 2}}).rules[0].match.ops
    assert "aten::sum.dim_IntList" in heeding and "aten::cumsum" not in heeding


# precedence


def decided(layers: list[str], op: str = "aten::mm") -> list[tuple[tuple[str, ...], str, str]]:
    """(scopes, mode, rule) of the choices in order; `layers` weakest first."""
    found = choices_by_op([rules.from_text(text, f"layer {i}") for i, text in enumerate(layers)])
    return [(c.scopes, c.mode, str(c.decided_by)) for c in found[op]]


@pytest.mark.parametrize(
    "layers,winner",
    [
        (["mm=host,mm=error"], "mm=error"),  # the later one
        (["mm=error,*mm*=host"], "mm=error"),  # the op beats the pattern
        (["*mm*=error,@blas=host"], "*mm*=error"),  # the pattern beats the group
        (["mm.default=error,mm=host"], "mm.default=error"),  # the overload beats the op
        (["mm=error", "@blas=host"], "@blas=host"),  # the stronger source beats the closer name
        (["mm=host", "mm=oracle", "mm=densecore", "mm=error"], "mm=error"),
    ],
)
def test_which_rule_wins(layers: list[str], winner: str) -> None:
    assert decided(layers)[0][2] == winner


def test_module_scopes_come_before_names() -> None:
    assert decided(["mm=host,h.*:@blas=oracle,h.3:*mm*=error"]) == [
        (("h.3",), "error", "h.3:*mm*=error"),
        (("h.*",), "oracle", "h.*:@blas=oracle"),
        ((), "host", "mm=host"),
    ]


def test_fields_of_weaker_rules_are_taken_down_to_the_first_mode() -> None:
    op = "aten::sum.dim_IntList"

    def fields(*layers: str) -> list[Any]:
        found = choices_by_op([rules.from_text(text, "test") for text in layers])
        return [(c.scopes, c.mode, dict(c.fields)) for c in found[op]]

    assert fields("sum={threads=2}", "sum={threads=3}") == [((), "densecore", {"threads": 3})]
    assert fields("sum=host", "sum={threads=3}") == [((), "densecore", {"threads": 3})]
    assert fields("sum={threads=3}", "sum=host") == [((), "host", {})]
    assert fields("h:sum=host", "sum={threads=3}") == [(("h",), "densecore", {"threads": 3}), ((), "densecore", {"threads": 3})]


def test_sources_rank_context_flag_environment_file(python: Any, tmp_path: Path) -> None:
    file, script = tmp_path / "o.toml", tmp_path / "script.py"
    file.write_text('"aten::mm" = "error"\n"aten::bmm" = "error"\n"aten::exp" = "error"\n"aten::addmm" = "error"\n')
    script.write_text("""
import torch, torch_densecore
x = torch.ones(2, 2, device="densecore")
x.mm(x)
torch.bmm(x[None], x[None])
with torch_densecore.override("exp=host"):
    x.exp()
try:
    torch.addmm(x, x, x)
except torch_densecore.overrides.OverriddenOpError as error:
    print(error)
print(*torch_densecore.overrides.active(), sep="\\n")
""")
    env = {"DENSECORE_OVERRIDE": f"@{file},mm=host,bmm=error"}
    done = python("-m", "torch_densecore.cli", "run", "--override", "bmm=densecore", "--", str(script), **env)
    assert done.stdout.splitlines() == [
        f"aten::addmm was called, which the override aten::addmm=error ({file}) forbids",
        f"aten::mm=error ({file})", f"aten::bmm=error ({file})", f"aten::exp=error ({file})", f"aten::addmm=error ({file})",
        "mm=host (DENSECORE_OVERRIDE)", "bmm=error (DENSECORE_OVERRIDE)", "bmm=densecore (--override)",
    ]  # fmt: skip


# contexts


def test_contexts_nest_and_the_inner_one_decides() -> None:
    x = draws(4, 4)
    with override({"mm": "error"}) as outer:
        with override({"mm": "host", "exp": "host"}) as inner:
            x.mm(x), x.exp()
            with override({"@blas": "densecore"}):
                x.mm(x), x.exp()
            assert overrides.active()[-2:] == [rule.described for rule in inner.rules]
        with pytest.raises(OverriddenOpError):
            x.mm(x)
    assert hits(outer) == [1] and hits(inner) == [1, 2] and overrides.active() == []


def test_exceptions_and_generators_leave_what_was_before() -> None:
    x = draws(4, 4)
    before = torch._C._dispatch_dump("aten::mm")
    with pytest.raises(KeyError), override({"mm": "error"}), override({"mm": "host"}):
        raise KeyError
    x.mm(x)
    assert torch._C._dispatch_dump("aten::mm") == before and overrides.active() == []


def test_one_context_is_entered_again_and_decorates() -> None:
    x = draws(4, 4)
    context = override({"mm": "host"})

    @context
    def product(depth: int) -> torch.Tensor:
        return x.mm(x) if depth == 0 else product(depth - 1)

    assert product.__name__ == "product"
    product(3), x.mm(x)
    with context, context:
        x.mm(x)
    assert hits(context) == [2]


def test_generators_and_coroutines_hold_it_while_they_run() -> None:
    x = draws(4, 4)
    context = override({"mm": "host"})

    @context
    def products() -> Iterator[torch.Tensor]:
        yield x.mm(x)
        yield x.mm(x)

    @context
    async def product() -> torch.Tensor:
        return x.mm(x)

    for _ in products():
        x.mm(x)
    asyncio.run(product())
    assert hits(context) == [3] and overrides.active() == []


def test_other_threads_follow_the_process() -> None:
    x = draws(4, 4)
    failures: list[BaseException] = []

    def work(mode: str, barrier: threading.Barrier) -> None:
        try:
            with override({"mm": mode}) as context:
                barrier.wait()
                for _ in range(50):
                    x.mm(x)
                barrier.wait()
                assert hits(context) == [50]
        except BaseException as error:
            failures.append(error)

    def plain(barrier: threading.Barrier) -> None:
        try:
            barrier.wait()
            assert overrides.active() == []
            for _ in range(50):
                x.mm(x)
            barrier.wait()
        except BaseException as error:
            failures.append(error)

    with override({"mm": "error"}):  # holds in this thread alone
        barrier = threading.Barrier(3)
        targets = [(work, ("host", barrier)), (work, ("densecore", barrier)), (plain, (barrier,))]
        threads = [threading.Thread(target=target, args=args) for target, args in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


# backward


class Where(torch.autograd.Function):
    """Notes the thread that its backward runs in."""

    seen: list[int] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        Where.seen.append(threading.get_ident())
        return grad.clone()


@pytest.fixture
def worker() -> None:
    """Autograd's worker of the device, warm: where it first holds memory of the device it hands the rest back to the caller."""
    with torch.autograd.set_multithreading_enabled(True):
        torch.ones(2, 2, device=D, requires_grad=True).exp().sum().backward()


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("other_thread", [False, True])
def test_backward_is_covered_in_whatever_thread_it_runs(other_thread: bool) -> None:
    Where.seen.clear()
    w = draws(8, 8).requires_grad_()
    with torch.autograd.set_multithreading_enabled(other_thread):
        with override({"mm": "host"}) as context:
            loss = Where.apply(w).mm(w).sum()
            loss.backward()
        assert (Where.seen[-1] != threading.get_ident()) is other_thread
        assert hits(context) == [3]  # the product and the gradients of its two factors
        loss = Where.apply(w).mm(w).sum()
        with override({"mm": "error"}), pytest.raises(OverriddenOpError, match="aten::mm was called"):
            loss.backward()
        (w.mm(w)).sum().backward()
    assert hits(context) == [3]


@pytest.mark.usefixtures("worker")
def test_a_check_in_a_worker_of_autograd_raises_in_the_caller(oracle_stub: Callable[[Any], None]) -> None:
    oracle_stub(lambda name, overload, args: torch.zeros(args[0].shape[0], args[1].shape[1]))
    w = draws(8, 8).requires_grad_()
    with torch.autograd.set_multithreading_enabled(True):
        loss = w.mm(w).sum()
        with override({"mm": "check:oracle"}), pytest.raises(DifferenceError, match="densecore and oracle differ: 64 of 64"):
            loss.backward()


# modules


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).exp())


def blocks() -> torch.nn.Module:
    return torch.nn.Sequential(Block(), Block(), Block()).to(D)


def hooks() -> int:
    module = torch.nn.modules.module
    return len(module._global_forward_pre_hooks) + len(module._global_forward_hooks)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("other_thread", [False, True])
def test_module_scopes_hold_forward_and_backward(other_thread: bool) -> None:
    model, x = blocks(), draws(2, 4)
    with torch.autograd.set_multithreading_enabled(other_thread):
        with override("1:mm=host,*:mm=densecore,*.up:mm=host,1:exp=host,nowhere:mm=host") as context:
            assert hooks() == 2
            for _ in range(2):
                model(x).sum().backward()
    # mm: forward, gradient of the weight, gradient of the input except in 0.up; an exact path is closer than a pattern
    assert hits(context) == [2 * 6, 2 * (3 + 3), 2 * (2 + 3), 2 * 1, 0]
    assert hooks() == 0 and _C.current_module_path() == ""


def test_no_module_hooks_without_a_scope() -> None:
    with override({"mm": "host"}):
        assert hooks() == 0


def test_a_forward_computed_again_in_backward_has_its_module() -> None:
    class Checkpointed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)

    model, x = Checkpointed().to(D), draws(2, 4).requires_grad_()
    with override({"inner.up:mm": "host"}) as context:
        model(x).sum().backward()
    assert hits(context) == [4]  # twice forward, two gradients


# check


@pytest.fixture
def oracle_stub() -> Iterator[Callable[[Any], None]]:
    """Puts another function where the oracle is; the oracle itself comes back."""

    def attach(function: Callable[[str, str, tuple[Any, ...]], Any]) -> None:
        _C.attach_oracle(function)

    yield attach
    _C.attach_oracle(strictness._run_in_oracle)


def plant(name: str, overload: str, args: tuple[Any, ...]) -> torch.Tensor:
    """Our own product with one element moved by two ulp."""
    with override({"mm": "densecore"}):
        result = torch.mm(args[0].to(D), args[1].to(D)).cpu()
    result.view(torch.int32)[1, 2] += 2
    return result


def test_check_stops_at_a_planted_difference(oracle_stub: Callable[[Any], None]) -> None:
    oracle_stub(plant)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 5, bias=False)).to(D)
    x = draws(3, 4)
    with override({"mm": "check:oracle"}), pytest.raises(DifferenceError) as caught:
        layer(x)
    found = caught.value.report
    y = layer(x)
    assert (found.op, found.call, found.module, found.reference) == ("aten::mm", found.call, "0", "oracle")
    assert (found.elements, found.elements_off, found.max_ulp, found.index, found.value) == (15, 1, 2.0, (1, 2), "result 0")
    assert found.ours.startswith(f"0x{y.detach().cpu().view(torch.int32)[1, 2].item() & 0xFFFFFFFF:08x} (")
    assert "in 0: densecore and oracle differ: 1 of 15 elements, max 2 ulp\n  first in result 0 at [1, 2]: " in str(caught.value)
    assert "\n  input float32[3, 4] " in str(caught.value)


def test_check_log_goes_on_with_our_result(oracle_stub: Callable[[Any], None], caplog: pytest.LogCaptureFixture) -> None:
    oracle_stub(plant)
    x = draws(4, 4)
    ours = x.mm(x)
    with override({"mm": "check:oracle:log"}), caplog.at_level(logging.WARNING):
        assert same(x.mm(x), ours) and same(x.mm(x), ours)
    assert [(r.elements_off, r.module) for r in overrides.reports()] == [(1, "")] * 2
    assert overrides.reports()[1].call == overrides.reports()[0].call + 1
    assert len(caplog.records) == 2 and check.totals()["aten::mm"].elements_off == 2


def test_check_of_equal_sides_says_nothing() -> None:
    x = draws(40)
    x[3] = float("nan")
    with override({"mul.Tensor": "check:host", "neg": "check:host", "fill_": "check:host"}) as context:
        assert same((x * x)[:3], (x.cpu() * x.cpu())[:3])
        x.neg()
        x.fill_(1.0)
    assert overrides.reports() == [] and hits(context) == [1, 1, 1] and x.tolist() == [1.0] * 40


def test_check_leaves_what_an_op_writes_to_our_kernel(oracle_stub: Callable[[Any], None]) -> None:
    seen: list[torch.Tensor] = []

    def wrong(name: str, overload: str, args: tuple[Any, ...]) -> torch.Tensor:
        seen.append(args[0].clone())
        return args[0].add_(1000.0)

    oracle_stub(wrong)
    base = draws(10)
    view, other, start = base[2:8:2], draws(3), base.clone()
    with override({"aten::add_.Tensor": "check:oracle:log"}):
        view.add_(other)
    start[2:8:2] += other
    assert same(base, start) and same(seen[0], draws(10)[2:8:2])
    (found,) = overrides.reports()
    assert found.value == "self" and found.elements_off == 3


def test_check_draws_the_same_numbers_on_both_sides() -> None:
    torch.manual_seed(5)
    plain = torch.empty(100, device=D).random_(0, 100), torch.empty(10, device=D).bernoulli_(0.5), torch.rand(3)
    torch.manual_seed(5)
    generator = torch.Generator(D).manual_seed(4)
    with override({"random_": "check:host", "bernoulli_.float": "check:host"}) as context:
        checked = torch.empty(100, device=D).random_(0, 100), torch.empty(10, device=D).bernoulli_(0.5), torch.rand(3)
        torch.empty(20, device=D).random_(0, 100, generator=generator)
    assert all(same(a.float(), b.float()) for a, b in zip(plain, checked, strict=True))
    assert hits(context) == [2, 1] and overrides.reports() == []


def test_check_of_lists_and_several_results() -> None:
    x = draws(6, 7)
    with override({"sort": "check:host", "_foreach_add_": "check:host", "max.dim": "check:host"}) as context:
        x.sort(dim=1, stable=True), x.max(dim=0)
        tensors = [torch.ones(3, device=D), torch.ones(2, device=D)]
        torch._foreach_add_(tensors, 2.0)
    assert [t.tolist() for t in tensors] == [[3.0] * 3, [3.0] * 2] and hits(context) == [1, 1, 1]


# words


@pytest.mark.parametrize(
    "text,message",
    [
        ("mmm=host", r"unknown op 'aten::mmm'; did you mean .*aten::mm"),
        ("mm=hots", r"override mm=hots \(.*\): unknown mode 'hots'; did you mean host\?"),
        ("@blass=host", r"unknown group '@blass'; did you mean @blas, "),
        ("mm=check", "write check:host or check:oracle"),
        ("mm=check:hots", r"unknown check 'check:hots'; did you mean check:host"),
        ("mm=check:host:warn", "each with :log or :stop"),
        ("mm=host:log", "takes nothing after a colon"),
        ("*no_such*=host", r"no op that can be overridden matches '\*no_such\*'"),
        ("linear=host", "torch composes it of other ops"),
        ("view=host", "it computes nothing"),
        ("add.Tensr=host", r"unknown op 'aten::add.Tensr'; did you mean .*aten::add\.Tensor"),
        ("mm", "write op=mode"),
        ("=host", "no op is named"),
        ("sum={}", "an empty override"),
        ("sum={lanes}", "is no field"),
        ("", "no rule is given"),
    ],
)
def test_what_cannot_be_is_refused_with_near_matches(text: str, message: str) -> None:
    with pytest.raises(OverrideError, match=message):
        override(text)


def test_text_forms() -> None:
    found = rules.from_text(" mm=host ; h.3.*:aten::mm = check:oracle:log\nsum={threads=2, mode=check:host},", "test")
    assert [str(one) for one in found] == ["mm=host", "h.3.*:aten::mm=check:oracle:log", "sum={mode=check:host, threads=2}"]
    assert [one.scope for one in found] == ["", "h.3.*", ""]


def test_groups_are_those_that_the_declarations_name() -> None:
    groups = opnames.groups()
    assert {"blas", "reduction", "random", "transcendental", "softmax", "attention"} <= set(groups)
    declared = {name for name, op in registry.load().items() if "reduction" in op.groups}
    assert set(groups["reduction"]) == declared and "aten::_softmax" in declared and "aten::mm" in groups["blas"]
    assert "aten::sqrt" not in groups["transcendental"] and "aten::normal_" in groups["random"]
    with override("@blas=host") as context:
        x = draws(2, 3, 3)
        x.bmm(x), x[0].mm(x[1])
    assert hits(context) == [2]


@pytest.mark.parametrize("suffix", ["toml", "yaml"])
def test_files(tmp_path: Path, suffix: str) -> None:
    if suffix == "yaml":
        pytest.importorskip("yaml")
        text = "aten::mm: host\n'h.*:@blas': check:host:log\naten::sum: {threads: 8}\n"
    else:
        text = '"aten::mm" = "host"\n"h.*:@blas" = "check:host:log"\n["aten::sum"]\nthreads = 8\n'
    path = tmp_path / f"o.{suffix}"
    path.write_text(text)
    found = override(f"@{path},mm=densecore").rules
    assert [str(one) for one in found] == ["aten::mm=host", "h.*:@blas=check:host:log", "aten::sum={threads=8}", "mm=densecore"]
    assert found[0].source == str(path)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = (("a.toml", "mm = ", "a.toml: "), ("b.yaml", "- mm", "holds one mapping"), ("c.ini", "", "ends in .toml"))
    for name, text, message in files:
        (tmp_path / name).write_text(text)
        with pytest.raises(OverrideError, match=message):
            override(f"@{tmp_path / name}")
    with pytest.raises(OverrideError, match="cannot read the overrides in .*none.toml"):
        override(f"@{tmp_path / 'none.toml'}")
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(OverrideError, match="needs PyYAML"):
        override(f"@{tmp_path / 'b.yaml'}")


# the whole process


def test_typos_in_the_environment_and_on_the_command_line_fail(python: Any, tmp_path: Path) -> None:
    failed = python("-c", "import torch_densecore", DENSECORE_OVERRIDE="mmm=host", check=False)
    assert failed.returncode != 0 and "unknown op 'aten::mmm'; did you mean" in failed.stderr
    script = tmp_path / "s.py"
    script.write_text("raise SystemExit('ran')")
    failed = python("-m", "torch_densecore.cli", "run", "--override", "mm=hots", "--", str(script), check=False)
    assert failed.returncode == 2 and "densecore run: override mm=hots (--override): unknown mode 'hots'" in failed.stderr


def test_an_override_that_was_never_hit_is_reported_at_exit(python: Any) -> None:
    program = """
import torch, torch_densecore
x = torch.ones(2, 2, device="densecore")
x.mm(x)
for _ in range(3):
    with torch_densecore.override({"bmm": "host"}):
        pass
"""
    done = python("-c", program, DENSECORE_OVERRIDE="mm=host;transformer.h.9:mm=oracle;exp=host")
    assert done.stderr.splitlines() == [
        "densecore: override transformer.h.9:mm=oracle (DENSECORE_OVERRIDE) was never hit",
        "densecore: override exp=host (DENSECORE_OVERRIDE) was never hit",
        "densecore: override bmm=host (<string>:6) was never hit",
    ]


@pytest.mark.usefixtures("own_environment")
def test_the_command_shows_what_is_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["DENSECORE_OVERRIDE"] = "mm=host"
    assert main(["overrides", "--json", "--override", "h.1:@blas=check:host", "--override", "sum={threads=2}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["override"], row["from"]) for row in found] == [
        ("sum={threads=2}", "--override"), ("h.1:@blas=check:host", "--override"), ("mm=host", "DENSECORE_OVERRIDE"),
    ]  # fmt: skip
    assert main(["overrides", "--json", "--ops", "--override", "h.1:@blas=check:host"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(r["within"], r["mode"]) for r in found if r["op"] == "aten::mm"] == [("h.1", "check:host"), ("", "host")]
    assert main(["overrides", "--groups"]) == 0
    assert "@transcendental" in capsys.readouterr().out
    assert main(["overrides", "--override", "@blass=host"]) == 2
    assert "unknown group '@blass'; did you mean @blas" in capsys.readouterr().err


def test_traces_say_which_overrides_were_in_force(tmp_path: Path) -> None:
    from torch_densecore.trace.format import TraceReader
    from torch_densecore.trace.recorder import record

    x = draws(2, 2)
    with override({"mm": "host"}) as outer:
        with record(tmp_path / "a.dct"):
            for _ in range(2):
                with override({"exp": "host"}) as inner:
                    x.exp()
    reader = TraceReader(tmp_path / "a.dct")
    list(reader.events())
    assert reader.environment["densecore"]["overrides"] == [outer.rules[0].described]
    (note,) = reader.summary.notes
    assert outer.rules[0].described in note and inner.rules[0].described in note


def test_certificates_carry_overrides_and_stay_out_of_the_tree(tmp_path: Path) -> None:
    from torch_densecore.certify import certificates, sweep

    usual = profile.current()
    assert sweep.describe(usual) == usual.describe()
    with override({"exp": "host"}) as context:
        described = sweep.describe(usual)
    assert described["overrides"] == [context.rules[0].described]
    made = certificates.Certificate("aten::exp", "float32", "quick", 1, 1, 0, 0, 1, [], described, "")
    with pytest.raises(ValueError, match=r"swept under overrides \(exp=host"):
        certificates.store(made)
    certificates.store(made, tmp_path / "made.json")
    assert certificates.load("aten::exp", tmp_path / "made.json") == [made]


# emulation


@pytest.mark.parametrize("emulate_first", [True, False])
def test_overrides_hold_for_ops_that_are_emulated_on_the_cpu(emulate_first: bool) -> None:
    x = draws(100, 300, device="cpu")
    torch_cpu, before = x.mm(x.T), torch._C._dispatch_dump("aten::mm")
    ours = x.to(D).mm(x.to(D).T)
    emulate, host = torch_densecore.emulate_cpu, override({"mm": "host"})
    if emulate_first:
        with emulate("mm"):
            assert same(x.mm(x.T), ours)
            with host:
                assert same(x.mm(x.T), torch_cpu)
            assert same(x.mm(x.T), ours)
    else:
        with host:
            with emulate("mm"):
                assert same(x.mm(x.T), torch_cpu)
            assert same(x.mm(x.T), torch_cpu)
    assert hits(host) == [1] and torch._C._dispatch_dump("aten::mm") == before


def test_draws_that_an_override_sends_to_the_host_are_meant(accepted_draws: None) -> None:
    x = torch.empty(100)
    with torch_densecore.emulate_cpu("random"), torch_densecore.uncertified("error"):
        with override({"normal_": "host", "uniform_": "check:host:log"}) as context:
            torch_cpu = x.normal_().clone(), x.uniform_(-3, 5)
            [t.to(D) for t in torch_cpu]
    assert hits(context) == [1, 1]


@pytest.mark.parametrize("mode", ["host", "densecore", "check:host:log", "error"])
def test_all_ops_emulated_meet_an_override_once(mode: str) -> None:
    x = draws(5, 40, device="cpu")
    host = x.exp(), x.neg()
    with torch_densecore.emulate_cpu(), override({"exp": mode, "neg": mode}) as context:
        if mode == "error":
            with pytest.raises(OverriddenOpError):
                x.neg()
            return
        exp, neg = x.exp(), x.neg()
    assert hits(context) == [1, 1] and same(neg, host[1]) and (mode != "host" or same(exp, host[0]))


def test_cpu_tensors_without_emulation_are_not_concerned() -> None:
    x = draws(4, 4, device="cpu")
    with override({"mm": "error"}):
        x.mm(x)
