"""Matrix products: against the reference wheel (marked oracle), Accelerate's model, torch's CPU op for errors, and across hosts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hosts import assert_same_on_every_host, every_host

from torch_densecore import blas_rules
from torch_densecore import profile as profiles
from torch_densecore.certify import Call, compare, products, specs
from torch_densecore.oracle.accelerate import AccelerateModel, BlasCall

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # NumPy, in the model

DEVICE = "densecore"
THREADS = (1, 2, 3, 4, 6, 8, 10, 12)
OPS = [name for name, spec in specs.SPECS.items() if isinstance(spec.family, products.Products)]


def calls(op: str, dtype: torch.dtype, quick: bool) -> Iterator[Call]:
    return (case() for case in specs.cases(op, [dtype], quick))


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS)
def test_bits_of_the_reference(op: str) -> None:
    compare(op, calls(op, torch.float32, quick=True)).check()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_bits_of_the_reference_complete(op: str) -> None:
    compare(op, calls(op, torch.float32, quick=False)).check()


@pytest.mark.oracle
@pytest.mark.parametrize("op", ["mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "addr"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_integers_of_the_reference(op: str, dtype: torch.dtype) -> None:
    """The declaration says `exact`: the host's own loops give the reference's integers, wrapped around where they overflow."""
    compare(f"aten::{op}", itertools.islice(calls(f"aten::{op}", dtype, quick=True), 0, None, 2)).check()


# ---- Accelerate's model, without the wheel --------------------------------------------------------------------------------


def model_mm(left: torch.Tensor, right: torch.Tensor, alpha: float, beta: float, addend: torch.Tensor) -> np.ndarray:
    """beta * addend + alpha * left @ right as torch asks Accelerate for it, rows first: the transposed product right^T left^T."""
    model = AccelerateModel(profiles.current().blas)
    (m, k), n = left.shape, right.shape[1]
    flags = {name: "N" if t.stride(1) == 1 else "T" for name, t in (("transa", right), ("transb", left))}
    arguments = {**flags, "m": n, "n": m, "k": k, "alpha": alpha, "beta": beta}
    rule = model.rule("sgemm", np.dtype(np.float32), m * n * k, arguments)
    stored = [t.numpy().T if flag == "N" else t.numpy() for t, flag in zip((right, left), flags.values(), strict=True)]
    result = addend.numpy().T.copy(order="F")
    model.gemm(BlasCall("sgemm", arguments, rule), *stored, result)
    return np.ascontiguousarray(result.T)


def words(values: Any) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.uint32)


@pytest.mark.parametrize("layouts", itertools.product(("rows", "columns", "row slice"), ("rows", "columns", "column slice")))
@pytest.mark.parametrize(
    "m, n, k", [(2, 3, 5), (5, 4, 3), (6, 5, 9), (15, 17, 12), (15, 17, 13), (29, 33, 40), (45, 66, 9), (20, 21, 520)]
)
def test_orders_of_the_profile(m: int, n: int, k: int, layouts: tuple[str, str]) -> None:
    generator = torch.Generator().manual_seed(m)
    left, right = products.matrix(m, k, layouts[0], generator), products.matrix(k, n, layouts[1], generator)
    addend = torch.randn(m, n, generator=generator)
    for beta, alpha in ((0, 1), (1, 1), (0.5, -2)):
        wanted = words(model_mm(left, right, alpha, beta, addend))
        for host in every_host():
            got = torch.addmm(addend.to(DEVICE), left.to(DEVICE), right.to(DEVICE), beta=beta, alpha=alpha)
            assert (words(got.cpu().numpy()) == wanted).all(), (host, beta, alpha)


def test_another_table_changes_small_products() -> None:
    """The rules are data of the profile: with the chain alone, a small product takes it."""
    chain = {
        "name": "chain",
        "orders": {"chain": {"lanes": 1, "accumulators": 1, "tail": "fused"}},
        "rules": [{"routine": routine, "order": "chain"} for routine in ("gemm", "gemv", "dot")],
    }
    left, right, zero = torch.randn(6, 9), torch.randn(5, 9).t(), torch.zeros(6, 5)
    ours = (left.to(DEVICE) @ right.to(DEVICE)).cpu().numpy()
    with profiles.use(blas=chain):
        other = (left.to(DEVICE) @ right.to(DEVICE)).cpu().numpy()
        assert (words(other) == words(model_mm(left, right, 1, 0, zero))).all()
    assert (words(ours) == words(model_mm(left, right, 1, 0, zero))).all()
    assert (words(ours) != words(other)).any()


@pytest.mark.parametrize(
    "change",
    [
        {"rules": []},
        {"rules": [{"routine": "gemm", "order": "chain"}] * 65},
        {"rules": [{"routine": "syrk", "order": "chain"}]},
        {"rules": [{"routine": "gemm", "order": "elsewhere"}]},
        {"orders": {"chain": {"lanes": 32, "accumulators": 1, "tail": "fused"}}},
        {"orders": {"chain": {"lanes": 1, "accumulators": 1, "tail": "soft"}}},
    ],
)
def test_a_table_that_cannot_be_held_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(profiles.ProfileError):
        blas_rules.float32_rules({**profiles.model("blas", "accelerate"), **change})


# ---- hosts, torch's rules --------------------------------------------------------------------------------------------------


def test_host_threads_and_isa_do_not_matter() -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(200, 600, generator=generator).to(DEVICE)
    w = torch.randn(130, 600, generator=generator).to(DEVICE)
    bias = torch.randn(130, generator=generator).to(DEVICE)
    heads = torch.randn(12, 64, 33, generator=generator).to(DEVICE)
    deep = torch.randn(90, 2600, generator=generator).to(DEVICE)  # k in blocks

    def run() -> list[torch.Tensor]:
        return [
            torch.mm(x, w.t()), torch.addmm(bias, x, w.t(), beta=0.5), torch.mm(x.t(), x), torch.mm(x[:, :65].t(), x),
            torch.bmm(heads, heads.mT), torch.baddbmm(heads[:, :3, :3], heads[:, :3], heads[:, :3].mT, alpha=0.3),
            torch.mm(deep, deep.t()), torch.mm(deep.t(), deep[:, :700]), torch.mm(x[:1], w[:65].t()), torch.mm(x[:3], w.t()),
            torch.mm(x[:1, :130], w), torch.mm(x[:, :2].t(), x), torch.mm(deep[:1], deep[:65].t()),
            torch.mv(w, x[0]), torch.mv(w.t(), bias), torch.dot(x[0], x[1]), torch.addr(w, bias, x[0], beta=0.3),
        ]  # fmt: skip

    assert_same_on_every_host(run)


def test_beta_zero_ignores_what_was_there() -> None:
    nan = float("nan")
    a, b = torch.randn(20, 30, device=DEVICE), torch.randn(30, 25, device=DEVICE)
    out = torch.full((20, 25), nan, device=DEVICE)
    assert torch.equal(torch.addmm(out, a, b, beta=0).cpu(), torch.mm(a, b).cpu())
    assert torch.equal(out.addmm_(a, b, beta=0).cpu(), torch.mm(a, b).cpu())
    batch = torch.full((2, 3, 3), nan, device=DEVICE)
    assert not batch.baddbmm_(torch.ones(2, 3, 2, device=DEVICE), torch.ones(2, 2, 3, device=DEVICE), beta=0).isnan().any()
    assert not torch.addmv(out[0, :20], a, b[:, 0], beta=0).isnan().any()


def test_addend_in_the_storage_of_the_result() -> None:
    results = []
    for device in ("cpu", DEVICE):
        halves = torch.arange(800.0).view(2, 20, 20).to(device)
        eye = torch.eye(20, device=device)
        torch.addmm(halves[0].t(), eye, eye, out=halves[1])
        results.append(halves.cpu())
    assert torch.equal(*results)


def test_out_is_resized_and_keeps_its_layout() -> None:
    a, b = torch.randn(14, 26, device=DEVICE), torch.randn(26, 15, device=DEVICE)
    empty = torch.empty(0, device=DEVICE)
    assert torch.mm(a, b, out=empty) is empty and empty.shape == (14, 15)
    wide = torch.zeros(14, 30, device=DEVICE)
    torch.mm(a, b, out=wide[:, ::2])
    assert torch.equal(wide[:, ::2].cpu(), empty.cpu()) and not wide[:, 1::2].any()
    with pytest.warns(UserWarning, match="resized"):
        torch.mm(a, b, out=torch.ones(2, 2, device=DEVICE))


def test_gradients_of_linear() -> None:
    grads = []
    for device in ("cpu", DEVICE):
        torch.manual_seed(1)
        x, w, b = (t.to(device).requires_grad_() for t in (torch.randn(3, 8, 40), torch.randn(24, 40), torch.randn(24)))
        torch.nn.functional.linear(x, w, b).square().sum().backward()
        grads.append([t.grad.cpu() for t in (x, w, b)])
    for host, ours in zip(*grads, strict=True):
        torch.testing.assert_close(ours, host)


def _tensors(device: str, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.ones(shape, device=device) for shape in shapes]


BAD: dict[str, Callable[[str], Any]] = {
    "mm of vectors": lambda d: torch.mm(*_tensors(d, (3,), (3,))),
    "mm sizes": lambda d: torch.mm(*_tensors(d, (2, 3), (4, 5))),
    "mm dtypes": lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 2, device=d, dtype=torch.float64)),
    "mm out dtype": lambda d: torch.mm(*_tensors(d, (2, 3), (3, 2)), out=torch.ones(2, 2, device=d, dtype=torch.int64)),
    "mm overlapping out": lambda d: torch.mm(*_tensors(d, (2, 3), (3, 2)), out=torch.ones(1, 2, device=d).expand(2, 2)),
    "addmm bias": lambda d: torch.addmm(*_tensors(d, (3,), (2, 3), (3, 4))),
    "addmm dims": lambda d: torch.addmm(*_tensors(d, (3,), (2, 3, 1), (3, 4))),
    "addmm_ expands": lambda d: torch.ones(4, device=d).addmm_(*_tensors(d, (2, 3), (3, 4))),
    "addmm complex alpha": lambda d: torch.addmm(*_tensors(d, (4,), (2, 3), (3, 4)), alpha=1j),
    "addmm dtypes": lambda d: torch.addmm(torch.ones(4, device=d, dtype=torch.float64), *_tensors(d, (2, 3), (3, 4))),
    "bmm dims": lambda d: torch.bmm(*_tensors(d, (2, 3), (2, 3))),
    "bmm batches": lambda d: torch.bmm(*_tensors(d, (2, 3, 4), (3, 4, 5))),
    "bmm sizes": lambda d: torch.bmm(*_tensors(d, (2, 3, 4), (2, 3, 5))),
    "baddbmm addend": lambda d: torch.baddbmm(*_tensors(d, (7,), (2, 3, 4), (2, 4, 5))),
    "baddbmm_ expands": lambda d: torch.ones(5, device=d).baddbmm_(*_tensors(d, (2, 3, 4), (2, 4, 5))),
    "addbmm batches": lambda d: torch.addbmm(*_tensors(d, (3, 5), (2, 3, 4), (3, 4, 5))),
    "addbmm_ sizes": lambda d: torch.ones(7, device=d).addbmm_(*_tensors(d, (2, 3, 4), (2, 4, 5))),
    "mv sizes": lambda d: torch.mv(*_tensors(d, (2, 3), (4,))),
    "addmv sizes": lambda d: torch.addmv(*_tensors(d, (3,), (2, 4), (4,))),
    "addmv dtypes": lambda d: torch.addmv(torch.ones(2, device=d, dtype=torch.float64), *_tensors(d, (2, 4), (4,))),
    "dot sizes": lambda d: torch.dot(*_tensors(d, (3,), (4,))),
    "dot dims": lambda d: torch.dot(*_tensors(d, (3, 1), (3,))),
    "dot dtypes": lambda d: torch.dot(torch.ones(3, device=d), torch.ones(3, device=d, dtype=torch.int64)),
    "vdot sizes": lambda d: torch.vdot(*_tensors(d, (3,), (4,))),
    "addr dims": lambda d: torch.addr(*_tensors(d, (3, 4), (3, 1), (4,))),
    "addr addend": lambda d: torch.addr(*_tensors(d, (3, 5), (3,), (4,))),
    "matmul of scalars": lambda d: torch.matmul(*_tensors(d, (), (3,))),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu_op(name: str) -> None:
    raised = []
    for device in ("cpu", DEVICE):
        with pytest.raises(Exception) as error:
            BAD[name](device)
        raised.append((type(error.value), str(error.value).splitlines()[0]))
    assert raised[0] == raised[1]
