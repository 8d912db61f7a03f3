"""Threads, random numbers, exceptions, provenance, models, leaks, dispatch mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torch_densecore.oracle import AccelerateModel, BlasCall, LibmModel, Oracle, TorchError, UnsupportedRoutine
from torch_densecore.oracle.accelerate import _fma32
from torch_densecore.oracle.unwind import UnwindTable

torch = pytest.importorskip("torch")
from torch_densecore.oracle.mode import OracleMode  # noqa: E402


def test_thread_count_changes_reductions(oracle: Oracle) -> None:
    x = torch.randn(1 << 20, generator=torch.Generator().manual_seed(1))
    sums, regions = {}, {}
    for count in (1, 2, 4, 8):
        oracle.num_threads = count
        result = oracle.run("aten::sum", x)
        sums[count], regions[count] = result.value.item(), result.parallel_regions
    assert regions[1] == 0 and regions[4] == 1
    assert len(set(sums.values())) > 1
    assert all(abs(v - x.double().sum().item()) < 1e-2 for v in sums.values())


def test_thread_count_is_validated(oracle: Oracle) -> None:
    with pytest.raises(ValueError):
        oracle.num_threads = 0


def test_parallel_elementwise_is_complete(oracle: Oracle) -> None:
    x = torch.arange(300_001.0)
    assert torch.equal(oracle.call("aten::add.Tensor", x, 1), x + 1)
    assert oracle.last.parallel_regions == 1


def test_uniform_streams(oracle: Oracle) -> None:
    oracle.manual_seed(42)
    torch.manual_seed(42)
    assert torch.equal(oracle.call("aten::uniform_", torch.empty(100)), torch.empty(100).uniform_())
    assert torch.equal(oracle.call("aten::randperm", 50), torch.randperm(50))
    assert torch.equal(oracle.call("aten::bernoulli_.float", torch.empty(64), 0.3), torch.empty(64).bernoulli_(0.3))
    assert torch.equal(oracle.call("aten::randint", 100, [20]), torch.randint(100, [20]))
    ours, theirs = (
        f(torch.ones(80), 0.5, True) for f in (lambda *a: oracle.call("aten::native_dropout", *a), torch.native_dropout)
    )
    assert torch.equal(ours[1], theirs[1])
    weights = torch.arange(1.0, 9.0)
    assert torch.equal(oracle.call("aten::multinomial", weights, 4), torch.multinomial(weights, 4))
    assert np.array_equal(oracle.get_rng_state(), torch.get_rng_state().numpy())


def test_normal_stream_is_close(oracle: Oracle) -> None:
    oracle.manual_seed(7)
    torch.manual_seed(7)
    ours = oracle.run("aten::normal_", torch.empty(64))
    assert torch.allclose(ours.value, torch.empty(64).normal_(), atol=1e-6)
    assert {"logf", "sincosf_stret"} <= ours.provenance


def test_generator_state(oracle: Oracle) -> None:
    oracle.manual_seed(5)
    state = oracle.get_rng_state()
    first = oracle.call("aten::rand", [5])
    oracle.set_rng_state(torch.from_numpy(state))
    assert torch.equal(first, oracle.call("aten::rand", [5]))
    torch.manual_seed(11)
    oracle.set_rng_state(torch.get_rng_state())
    assert torch.equal(oracle.call("aten::rand", [5]), torch.rand(5))


def test_generator_argument(oracle: Oracle) -> None:
    ours, theirs = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    before = oracle.get_rng_state()
    got = oracle.call("aten::uniform_", torch.empty(6), 0.0, 1.0, generator=ours)
    assert torch.equal(got, torch.empty(6).uniform_(generator=theirs))
    assert torch.equal(ours.get_state(), theirs.get_state())
    assert np.array_equal(before, oracle.get_rng_state())


FAILURES = [
    ("aten::mm", (torch.ones(2, 3), torch.ones(2, 3)), RuntimeError, "cannot be multiplied"),
    ("aten::index.Tensor", (torch.ones(4), [torch.tensor([9])]), IndexError, "out of bounds"),
    ("aten::view", (torch.ones(6), [4]), RuntimeError, "invalid for input of size"),
    ("aten::cat", ([torch.ones(2), torch.ones(2, 2)],), RuntimeError, "must match|same number of dim"),
    ("aten::sum.dim_IntList", (torch.ones(2), [5]), IndexError, "Dimension out of range"),
    ("aten::cholesky", (torch.eye(3),), UnsupportedRoutine, "spotrf"),
]


@pytest.mark.parametrize("name,args,kind,text", FAILURES, ids=[f[0] for f in FAILURES])
def test_exceptions(oracle: Oracle, name: str, args: tuple[Any, ...], kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        oracle.call(name, *args)
    assert oracle.call("aten::add.Tensor", torch.ones(2), 1).tolist() == [2.0, 2.0]


def test_exception_inside_parallel_region(oracle: Oracle) -> None:
    x, index = torch.ones(10, 4), torch.full((200_000,), 99)
    with pytest.raises((TorchError, IndexError)):
        oracle.call("aten::index_select", x, 0, index)
    assert oracle.machine.openmp.level == 0 and oracle.machine.depth == 0
    assert oracle.call("aten::sum", torch.ones(100_000)).item() == 100_000


@pytest.mark.parametrize("name,args,kind,text", FAILURES, ids=[f[0] for f in FAILURES])
def test_exceptions_are_unwound(oracle: Oracle, name: str, args: tuple[Any, ...], kind: type, text: str) -> None:
    """Destructors of every frame run, so nothing is left behind."""

    def fail() -> None:
        with pytest.raises(kind):
            oracle.call(name, *args)

    fail()
    heap = oracle.machine.heap
    before = heap.live_blocks, heap.live_bytes
    for _ in range(20):
        fail()
    assert (heap.live_blocks, heap.live_bytes) == before
    assert not oracle.machine.exceptions.live


def test_unwind_table(oracle: Oracle) -> None:
    """The compact unwind table finds the function that contains an address."""
    machine = oracle.machine
    table = UnwindTable(machine.images[1])
    for name in ("_aoti_torch_get_dim", "_aoti_torch_delete_tensor_object"):
        start = machine.symbol(name)
        assert table.find(start + 8)[0] == start


def test_no_leak(oracle: Oracle) -> None:
    x, w = torch.randn(16, 16), torch.randn(16, 16)

    def round_trip() -> None:
        oracle.call("aten::add.Tensor", x, 1.5)
        oracle.call("aten::mm", x, w)
        oracle.call("aten::index.Tensor", x, [torch.tensor([1])])
        oracle.call("aten::split.Tensor", x, 4)
        oracle.call("aten::add_.Tensor", x.clone(), w)

    for _ in range(3):
        round_trip()
    blocks, size, top = oracle.machine.heap.live_blocks, oracle.machine.heap.live_bytes, oracle.machine.heap.top
    for _ in range(400):
        round_trip()
    heap = oracle.machine.heap
    assert (heap.live_blocks, heap.live_bytes, heap.top) == (blocks, size, top)


@pytest.mark.slow
def test_ten_thousand_calls_do_not_grow(oracle: Oracle) -> None:
    x = torch.randn(8)
    for _ in range(100):  # what is made at first use
        oracle.call("aten::mul.Tensor", x, x)
    before = oracle.machine.heap.live_bytes, oracle.machine.heap.top
    for _ in range(10_000):
        oracle.call("aten::mul.Tensor", x, x)
    assert (oracle.machine.heap.live_bytes, oracle.machine.heap.top) == before


def test_provenance(oracle: Oracle) -> None:
    x = torch.randn(16)
    assert oracle.run("aten::exp", x).pure
    scalar = oracle.run("aten::erf", x.double()[:1])
    assert scalar.provenance <= {"erf"}
    assert oracle.run("aten::add.Tensor", x, x).pure
    assert oracle.run("aten::lgamma", x).pure
    assert oracle.run("aten::acosh", x.abs() + 1).provenance == {"acoshf"}
    assert oracle.last.libm["acoshf"] == 16


def test_libm_is_correctly_rounded(oracle: Oracle) -> None:
    mpmath = pytest.importorskip("mpmath")
    native = oracle.machine.native
    if native is None:
        pytest.skip("no C compiler")
    mpmath.mp.prec = 200
    for value in np.random.default_rng(0).uniform(0.1, 3, 200):
        for name in ("exp", "log", "sin", "cos", "tanh", "erf"):
            assert native.libm("_" + name, value) == float(getattr(mpmath, name)(mpmath.mpf(value)))
            if name == "exp":  # expf follows Apple's own algorithm
                continue
            single = np.float32(value)
            exact = getattr(mpmath, name)(mpmath.mpf(float(single)))
            with mpmath.workprec(24):
                assert native.libm(f"_{name}f", float(single)) == float(+exact)


EXPF_WORDS = """40b53637 438ffc97 c0d9ca01 3a911fed c18b1966 32f16668 c10aaafc 393495a9 42b17217 7f7fff84
42b17218 7f800000 c2cff1b4 00000001 c2cff1b5 00000000 3f800000 402df854 bf800000 3ebc5ab2 00000000 3f800000""".split()


def test_expf_is_apples(oracle: Oracle) -> None:
    """Words where the published algorithm differs from correct rounding, and its edges."""
    for word, expected in zip(EXPF_WORDS[::2], EXPF_WORDS[1::2], strict=False):
        x = float(np.uint32(int(word, 16)).view(np.float32))
        values = [LibmModel().call("expf", x)]
        if oracle.machine.native is not None:
            values.append(oracle.machine.native.libm("_expf", x))
        for value in values:
            assert f"{np.float32(value).view(np.uint32):08x}" == expected


def test_small_products_follow_the_provisional_rule(oracle: Oracle) -> None:
    """n = 1: products rounded and added in order (T N), even and odd k in two fused chains (N N)."""
    w, x = torch.randn(3, 3), torch.randn(1, 3)
    result = oracle.run("aten::mm", x, w.t())  # T N 3 1 3
    assert result.provenance == {"sgemm", "sgemm_small"} and result.blas[0].arguments["transa"] == "T"
    p = [x[0, i] * w[:, i] for i in range(3)]
    assert torch.equal(result.value[0], (p[0] + p[1]) + p[2])
    result = oracle.run("aten::mm", x, w)  # N N 3 1 3
    even = (x[0, 0] * w[0]).double() + x[0, 2].double() * w[2].double()
    assert torch.equal(result.value[0], even.float() + x[0, 1] * w[1])
    assert oracle.run("aten::mm", torch.randn(16, 16), torch.randn(16, 16)).provenance == {"sgemm"}


def test_libm_fallback_agrees(oracle: Oracle) -> None:
    model = LibmModel()
    if oracle.machine.native is None:
        pytest.skip("no C compiler")
    for value in np.random.default_rng(1).uniform(0.1, 3, 50).astype(np.float32):
        for name in ("expf", "logf", "sinf", "tanhf"):
            assert model.call(name, float(value)) == oracle.machine.native.libm("_" + name, float(value))


class _Doubling(AccelerateModel):
    def gemm(self, call: BlasCall, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        super().gemm(call, a, b, c)
        c *= 2


def test_models_can_be_replaced() -> None:
    other = Oracle(blas_model=_Doubling(), libm_model=LibmModel({"acoshf": lambda x: 12.0}))
    x = torch.eye(4)
    assert torch.equal(other.call("aten::mm", x, x), 2 * x)
    assert other.call("aten::acosh", torch.ones(3)).tolist() == [12.0] * 3
    assert other.last.provenance == {"acoshf"}


def test_blas_log(oracle: Oracle) -> None:
    a, x = torch.randn(5, 7), torch.randn(7)
    assert torch.allclose(oracle.call("aten::mv", a, x), a @ x, atol=1e-6)
    assert oracle.last.blas and oracle.last.blas[0].routine in ("sgemv", "sdot", "sgemm")
    oracle.call("aten::mm", a.double(), torch.randn(7, 3).double())
    assert str(oracle.last.blas[0]).startswith("dgemm(")
    c = torch.complex(a, a)
    assert torch.allclose(oracle.call("aten::mm", c, c.t()), c @ c.t(), atol=1e-5)


def test_blas_without_compiler(oracle: Oracle) -> None:
    model = AccelerateModel()
    rng = np.random.default_rng(2)
    a, b = (np.asfortranarray(rng.standard_normal((6, 6)).astype(np.float32)) for _ in range(2))
    got = np.zeros((6, 6), np.float32, order="F")
    arguments = dict(transa="N", transb="T", m=6, n=6, k=6, alpha=1.0, beta=0.0, lda=6, ldb=6, ldc=6)
    model.gemm(BlasCall("sgemm", arguments), a, b, got)
    want = oracle.call("aten::mm", torch.from_numpy(a), torch.from_numpy(b).t())
    assert np.array_equal(got, want.numpy())


def test_fused_multiply_add_rounds_once() -> None:
    a = np.array([1 + 2.0**-12], np.float32)
    c = np.array([-(2.0**-60)], np.float32)
    exact = a.astype(np.longdouble) ** 2
    assert _fma32(a, a, np.zeros(1, np.float32))[0] == np.float32(exact[0])
    half = np.float32(1 + 2.0**-23)
    assert _fma32(np.array([half]), np.array([np.float32(1.5)]), c)[0] == np.float32(1.5 + 2.0**-23)


def test_mode_runs_a_model(oracle: Oracle) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    x = torch.randn(3, 8)
    mode = OracleMode(oracle)
    with torch.no_grad():
        expected = model(x)
        with mode:
            got = model(x)
    assert torch.allclose(got, expected, atol=1e-6)
    assert mode.counts["aten::addmm"] == 2 and mode.provenance["aten::addmm"] == {"sgemm", "sgemm_small"}
    assert mode.provenance["aten::native_layer_norm"] == set()


def test_mode_with_gradients_and_chosen_operators(oracle: Oracle) -> None:
    x = torch.randn(4, 4, requires_grad=True)
    mode = OracleMode(oracle, ops=["aten::tanh", "aten::tanh_backward"])
    with mode:
        x.tanh().sum().backward()
    assert set(mode.counts) == {"aten::tanh", "aten::tanh_backward"}
    assert torch.allclose(x.grad, 1 - x.detach().tanh() ** 2, atol=1e-6)


def test_mode_shares_the_random_stream(oracle: Oracle) -> None:
    torch.manual_seed(9)
    expected = torch.rand(4), torch.rand(4)
    torch.manual_seed(9)
    with OracleMode(oracle):
        first = torch.rand(4)
    second = torch.rand(4)
    assert torch.equal(first, expected[0]) and torch.equal(second, expected[1])


def test_mode_fallback(oracle: Oracle) -> None:
    mode = OracleMode(oracle, fallback=True)
    with mode:
        torch.linalg.cholesky(torch.eye(3))
    assert any("spotrf" in name for name in mode.skipped)
    with pytest.raises(UnsupportedRoutine), OracleMode(oracle):
        torch.linalg.cholesky(torch.eye(3))
