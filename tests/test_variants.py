"""Kernels whose arithmetic is a choice of the profile.

At the default choice they give the certified kernels' bits, at this host's choice those of its own CPU ops. What a profile chooses
and no kernel has is refused.
"""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import torch_densecore
from torch_densecore import _C, arithmetic, registry
from torch_densecore import profile as profiles
from torch_densecore.certify.bits import unequal
from torch_densecore.native_profile import native
from torch_densecore.profile import ProfileError
from torch_densecore.trace.probe.addend import with_addend
from torch_densecore.trace.probe.requests import Shape, operands
from torch_densecore.trace.probe.table import rule_in

ops = torch.ops.aten
LENGTHS = (1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 65, 129, 257, 1000)
X86 = platform.machine() in ("x86_64", "AMD64")


def cases(lengths: tuple[int, ...] = LENGTHS) -> Iterator[tuple[str, Callable, tuple]]:
    """(op, function, arguments) for every op with variant kernels."""
    torch.manual_seed(0)
    for n in lengths:
        x, grad, weight, bias = torch.randn(37, n) * 3, torch.randn(37, n), torch.randn(n), torch.randn(n)
        yield "sum.dim_IntList", ops.sum.dim_IntList, (x, [-1])
        yield "sum.dim_IntList", ops.sum.dim_IntList, (x, [0])
        yield "sum.dim_IntList", ops.sum.dim_IntList, (x.t(), [0])
        yield "sum.dim_IntList", lambda x: ops.sum.dim_IntList(x[:, ::2], [-1]), (x,)
        yield "mean.dim", ops.mean.dim, (x, [-1])
        yield "nansum", ops.nansum.default, (torch.where(x > 4, torch.nan, x), [-1])
        for w, b in ((weight, bias), (weight, None), (None, bias), (None, None)):
            yield "native_layer_norm", ops.native_layer_norm.default, (x, [n], w, b, 1e-5)
        for dim, t, g in ((-1, x, grad), (1, torch.randn(3, 11, n) * 3, torch.randn(3, 11, n))):
            yield "_softmax", ops._softmax.default, (t, dim, False)
            yield "_log_softmax", ops._log_softmax.default, (t, dim, False)
            y = F.softmax(t, dim)
            yield "_softmax_backward_data", ops._softmax_backward_data.default, (g, y, dim, torch.float32)
            yield "_log_softmax_backward_data", ops._log_softmax_backward_data.default, (g, y.log(), dim, torch.float32)
    special = torch.tensor([[0.0, -0.0, torch.inf, 1e-40], [-torch.inf, torch.nan, 1.0, -1e30], [-torch.inf] * 4])
    for name, op in (("_softmax", ops._softmax.default), ("_log_softmax", ops._log_softmax.default)):
        yield name, op, (special, -1, False)
    yield "sum.dim_IntList", ops.sum.dim_IntList, (special, [-1])
    for n in (32767, 32768, 70001):
        yield "sum.dim_IntList", ops.sum.dim_IntList, (torch.randn(n), None)


def products(sides: tuple[int, ...], depths: tuple[int, ...]) -> Iterator[tuple[str, Callable, tuple]]:
    torch.manual_seed(1)
    for m in sides:
        for n in sides:
            for k in depths:
                a, b, start = torch.randn(m, k), torch.randn(k, n), torch.randn(m, n)
                for left, right in ((a, b), (a, b.t().contiguous().t()), (a.t().contiguous().t(), b)):
                    yield "mm", ops.mm.default, (left, right)
                yield "addmm", ops.addmm.default, (torch.randn(n), a, b)
                yield "addmm", lambda s, a, b: ops.addmm(s, a, b, beta=0.3, alpha=0.7), (start, a, b)
                yield "bmm", ops.bmm.default, (torch.stack([a, -a, a + 1]), torch.stack([b, b, b * 2]))
                for matrix in (a, a.t().contiguous().t()):
                    yield "addmv", ops.mv.default, (matrix, b[:, 0])
                    yield "addmv", lambda s, a, x: ops.addmv(s, a, x, beta=0.3, alpha=0.7), (start[:, 0], matrix, b[:, 0])
                    yield "addmv", lambda s, a: ops.addmv(s, a, s[:1].expand(a.shape[1]), beta=0.3), (start[:, 0], matrix)
                yield "dot", ops.dot.default, (a[0], b[:, 0])


def results(function: Callable, arguments: tuple, device: str) -> list[torch.Tensor]:
    moved = [value.to(device) if isinstance(value, torch.Tensor) else value for value in arguments]
    return [value.cpu() for value in torch.utils._pytree.tree_leaves(function(*moved))]


def elements_off(function: Callable, arguments: tuple, wanted: list[torch.Tensor]) -> int:
    got = results(function, arguments, "densecore")
    return sum(int(unequal(a.contiguous(), b.contiguous()).sum()) for a, b in zip(got, wanted, strict=True))


def test_default_choices_give_the_certified_bits():
    """The variant kernels under the default profile, beside the certified ones, which the oracle has judged."""
    tried = [*cases(), *products((1, 3, 17, 33), (1, 5, 64, 200))]
    wanted = [results(function, arguments, "densecore") for _, function, arguments in tried]
    for threads in (1, 3, 4):
        base = profiles.current().replace(threads=threads)
        _C.set_profile(native(base))
        wanted = [results(function, arguments, "densecore") for _, function, arguments in tried]
        _C.set_profile(native(base, always_variant=True))
        try:
            for (name, function, arguments), want in zip(tried, wanted, strict=True):
                assert elements_off(function, arguments, want) == 0, (name, threads)
        finally:
            _C.set_profile(native(profiles.current()))


# How torch 2.13's x86-64 wheel (GCC, MKL on an AMD CPU with AVX-512 and FMA) computes at each of its levels.
GCC = {"fma": True, "contract": "gcc", "lane_join": "halves", "exp": "sleef_u10", "libm": "glibc"}
PLAIN = {"lanes": 8, "fma": False, "contract": "none", "lane_join": "in_order", "exp": "libm", "libm": "glibc"}
NARROW = ("sum.dim_IntList", "native_layer_norm")  # have no AVX-512 build
WIDE = ("_softmax", "_softmax_backward_data", "_log_softmax", "_log_softmax_backward_data")
HOST_FIELDS = {
    "default": {name: PLAIN for name in (*NARROW, *WIDE) if name != "_log_softmax"},  # libm's logf has no variant
    "avx2": {name: {**GCC, "lanes": 8} for name in (*NARROW, *WIDE)},
    "avx512": {**{name: {**GCC, "lanes": 16} for name in WIDE}, **{name: {**GCC, "lanes": 8} for name in NARROW}},
}
for _fields in HOST_FIELDS.values():
    _fields["mean.dim"] = _fields["nansum"] = _fields["sum.dim_IntList"]


def compare_with_this_host(level: str) -> dict[str, list[int]]:
    """{op: [cases, elements off]}; run in a process of its own, under ATEN_CPU_CAPABILITY."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    if capability != level:
        return {}
    found: dict[str, list[int]] = {}
    for name, function, arguments in cases():
        fields = HOST_FIELDS[level].get(name)
        if fields is None:
            continue
        _C.set_profile(native(profiles.load().replace(threads=torch.get_num_threads(), **fields)))
        count = found.setdefault(name, [0, 0])
        count[0] += 1
        count[1] += elements_off(function, arguments, results(function, arguments, "cpu"))
    return found


@pytest.mark.skipif(not X86 or not torch.__version__.startswith(arithmetic.RELEASE), reason="known of torch 2.13's x86-64 wheel")
@pytest.mark.parametrize("level", ["default", pytest.param("avx2", marks=pytest.mark.slow), "avx512"])
def test_this_hosts_bits(level: str, python: Callable[..., subprocess.CompletedProcess[str]]):
    program = f"import json, test_variants; print(json.dumps(test_variants.compare_with_this_host({level!r})))"
    for threads in ("1", "2"):
        done = python("-c", program, ATEN_CPU_CAPABILITY=level, OMP_NUM_THREADS=threads)
        found = json.loads(done.stdout.splitlines()[-1])
        if not found:
            pytest.skip(f"this CPU has no {level}")
        if threads == "2":  # the compiler made two copies of this loop, and fuses in the one that a single thread runs
            found.pop("_softmax_backward_data")
        assert set(found) >= {"sum.dim_IntList", "_softmax", "native_layer_norm"}
        assert all(off == 0 and tried > 10 for tried, off in found.values()), found


@pytest.mark.parametrize("lanes", [8, 16])
def test_lanes_change_the_bits_of_a_sum(lanes: int):
    x = torch.randn(64, 1000, device="densecore")
    four = x.sum(-1)
    with profiles.use(lanes=lanes):
        other = x.sum(-1)
    assert 0 < int(unequal(four.cpu(), other.cpu()).sum()) and torch.equal(x.sum(-1), four)


def test_rounded_products_change_mm():
    a, b = torch.randn(40, 70, device="densecore"), torch.randn(70, 30, device="densecore")
    fused = a @ b
    with profiles.use(fma=False):
        rounded = a @ b
    chain = torch.zeros(40, 30)
    for k in range(70):
        chain = chain + a.cpu()[:, k : k + 1] * b.cpu()[k : k + 1]
    assert torch.equal(rounded.cpu(), chain) and not torch.equal(fused.cpu(), chain)


def test_ops_that_a_profile_changes_and_no_kernel_follows_are_refused():
    x = torch.randn(20, device="densecore")
    torch_densecore.set_uncertified("error")
    with profiles.use(lanes=8):
        message = r"aten::gelu .*no kernel has the arithmetic .*lanes = 8.*Ways on"
        with pytest.raises(torch_densecore.UncertifiedOpError, match=message):
            F.gelu(x)
        torch_densecore.set_uncertified("host")
        assert torch.equal(F.gelu(x).cpu(), F.gelu(x.cpu()))
    assert "aten::gelu" not in arithmetic.plan(profiles.current()).refused
    torch_densecore.set_uncertified("error")
    F.gelu(x)


def test_every_field_has_an_op_that_heeds_it():
    heeded = set().union(*(op.fields for op in registry.load().values()))
    assert heeded >= {*profiles.CHOICES, "threads", "blas", "libm"} - {"casts"}
    assert registry.get("aten::sum.dim_IntList").fields == {"threads", "lanes"}


PROBED = {
    "name": "made-up", "system": "linux-x86_64", "threads": 2, "casts": "x86", "libm": "glibc",
    "ops": {"aten::sum*": {"lanes": 8}, "aten::_softmax": {"unknown": "a made-up reason"}, "aten::mm": {"fma": True}},
    "blas": {
        "name": "made-up", "largest_side": 64, "largest_depth": 512, "addend": "first",
        "orders": {"blocks": {"lanes": 1, "accumulators": 1, "tail": "fused", "block": 192, "halves": True}},
        "rules": [{"routine": "gemm", "minimum_m": 12, "minimum_n": 4, "order": "blocks"}],
    },
}  # fmt: skip


def test_a_probed_profile_serves_what_it_knows_and_refuses_the_rest():
    on_device = torch.randn(40, 40, device="densecore")
    with profiles.use(lanes=8, threads=2):
        expected = on_device.sum(1)
    torch_densecore.set_uncertified("error")
    with profiles.use(profiles.from_dict(PROBED)) as profile:
        assert profile.probed and profile.describe()["ops"] == "probed"
        assert torch.equal(on_device.sum(1).cpu(), expected.cpu())
        (on_device @ on_device).cpu()
        for message, call in (
            ("does not know its arithmetic: a made-up reason", lambda: on_device.softmax(-1)),
            ("does not say how linux-x86_64 computes it", lambda: F.gelu(on_device)),
            ("in which order sgemm adds up for m = 40, n = 3, k = 40", lambda: on_device[:3] @ on_device),
            ("in which order sgemm adds up for m = 40, n = 80", lambda: torch.cat([on_device, on_device]) @ on_device),
            ("saturating rule", lambda: on_device.to(torch.int32)),
        ):
            with pytest.raises(torch_densecore.UncertifiedOpError, match=message):
                call()
        with pytest.raises(ProfileError, match="emulate_cpu: only the device follows"):
            torch_densecore.emulate_cpu("random")
    assert F.gelu(on_device).shape == (40, 40)


MIXED = {
    "name": "made-up", "largest_side": 100, "largest_depth": 600,
    "orders": {
        "chain": {"lanes": 1, "accumulators": 1, "tail": "fused"},
        "blocks": {"lanes": 1, "accumulators": 1, "tail": "fused", "block": 64},
        "eight": {"lanes": 8, "accumulators": 2, "tail": "fused", "lane_join": "halves"},
        "four": {"lanes": 4, "accumulators": 4, "tail": "rounded"},
    },
    "rules": [
        {"routine": "gemm", "minimum_product": 60000, "order": "chain"},
        {"routine": "gemm", "minimum_product": 3000, "minimum_n": 4, "order": "chain", "addend": "chain"},
        {"routine": "gemm", "transa": "N", "minimum_m": 2, "minimum_n": 2, "order": "blocks", "addend": "first"},
        {"routine": "gemm", "transa": "T", "minimum_m": 3, "minimum_n": 2, "order": "eight", "odd_last_column": "four"},
        {"routine": "gemm", "transa": "T", "minimum_m": 2, "order": "four", "addend": "unknown"},
        {"routine": "gemv", "trans": "N", "minimum_m": 3, "order": "eight"},
        {"routine": "gemv", "trans": "T", "order": "four"},
        {"routine": "dot", "minimum_k": 4, "order": "blocks"},
    ],
}  # fmt: skip
SIZES_TO_ASK = ((2, 1, 9), (3, 2, 100), (4, 7, 33), (5, 3, 17), (30, 31, 5), (40, 33, 500), (64, 4, 65), (100, 5, 600))


def asked_of_blas() -> Iterator[tuple[Shape, str, torch.Tensor, torch.Tensor]]:
    """The request, the op that makes it, and its operands a (m, k) and b (n, k)."""
    for m, n, k in SIZES_TO_ASK:
        a, b = torch.randn(m, k), torch.randn(n, k)
        for trans in ("TN", "NN"):
            yield Shape("gemm", trans, m, n, k), "mm", a, b
        for trans in "TN":
            yield Shape("gemv", trans, m, 1, k), "mv", a, b[:1]
        yield Shape("dot", "*", 1, 1, k), "dot", a[:1], b[:1]


def check_one_request(shape: Shape, op: str, a: torch.Tensor, b: torch.Tensor) -> str:
    """Compares with the table in numpy, or expects a refusal; says which order and addend were right."""
    rule = rule_in(MIXED, shape)
    refusal = f"s{shape.routine} adds up for m = {shape.m}, n = {shape.n}, k = {shape.k}"
    tensors = operands(shape, a, b)
    on_device = [tensor.to("densecore") for tensor in tensors]
    if rule is None:
        with pytest.raises(torch_densecore.UncertifiedOpError, match=refusal):
            getattr(ops, op)(*on_device)
        return "refused"
    by_column = [MIXED["orders"][rule.get(name, rule["order"])] for name in ("order", "odd_last_column")]
    wanted = with_addend("last", by_column, a.numpy(), b.numpy(), np.zeros((shape.m, shape.n), np.float32), 0, 1)
    wanted = torch.from_numpy(wanted.T).reshape(getattr(ops, op)(*tensors).shape)
    assert int(unequal(getattr(ops, op)(*on_device).cpu(), wanted).sum()) == 0, shape
    return f"{op} {rule['order']} {check_addend(shape, rule, by_column, a, b, refusal) if op == 'mm' else ''}"


def check_addend(shape: Shape, rule: dict, by_column: list[dict], a: torch.Tensor, b: torch.Tensor, refusal: str) -> str:
    kind, start = rule.get("addend", "last"), a[:, :1] * b[:, 1]
    tensors = [tensor.to("densecore") for tensor in (start.t(), *operands(shape, a, b))]
    if kind == "unknown":
        with pytest.raises(torch_densecore.UncertifiedOpError, match=refusal + ".*alpha other than 1, an addend"):
            ops.addmm(*tensors, beta=0.3, alpha=0.7)
        return kind
    for beta, alpha in ((1, 1), (0.3, 0.7), (0, 0.7), (0.3, 1)):
        wanted = torch.from_numpy(with_addend(kind, by_column, a.numpy(), b.numpy(), start.numpy(), beta, alpha).T)
        assert int(unequal(ops.addmm(*tensors, beta=beta, alpha=alpha).cpu(), wanted).sum()) == 0, (shape, kind, beta, alpha)
    return kind


def test_a_table_that_mixes_rules_gives_each_product_its_own_order():
    """Products in an order of the certified kernels, in another one and in an unknown one, by one table with a size limit."""
    torch.manual_seed(3)
    known = {f"aten::{name}": {"fma": True} for name in ("mm*", "addmm*", "addmv*", "dot", "vdot")}
    requests = list(asked_of_blas())
    torch_densecore.accept_cpu_draws()
    torch_densecore.set_uncertified("error")
    with profiles.use(profiles.from_dict({"name": "mixed", "blas": MIXED, "ops": known})):
        found = {check_one_request(*request) for request in requests}
        too_large = torch.ones(101, 8).to("densecore")
        for call in (lambda: too_large @ too_large.t(), lambda: too_large @ too_large[0]):
            with pytest.raises(torch_densecore.UncertifiedOpError, match="m = 101"):
                call()
    assert found == {
        "mm chain last", "mm chain chain", "mm blocks first", "mm eight last", "mm four unknown", "mv eight ", "mv four ",
        "dot blocks ", "refused",
    }  # fmt: skip


def test_refused_in_profiles():
    for data, message in (
        ({"system": "linux-x86_64"}, "there are no 'ops' that say how it computes"),
        ({"lanes": 3}, "lanes must be one of 4, 8, 16"),
        ({"fma": 1}, "fma must be one of True, False"),
        ({"exp": "fast"}, "exp must be one of sleef_u10"),
        ({"libm": {"name": "musl", "functions": {}}}, "libm must be one of apple, glibc"),
    ):
        with pytest.raises(ProfileError, match=message):
            profiles.from_dict(data)
    wrong = profiles.from_dict({**PROBED, "ops": {"aten::sum*": {"exp": "libm"}}})
    assert "exp = 'libm'" in arithmetic.plan(wrong).refused["aten::sum.dim_IntList"]
