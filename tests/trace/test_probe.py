"""Trees of known orders are found and named; a probe of this host is enough to compute as it does."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from traced_programs import run_traced

from torch_densecore.trace.explain import orders
from torch_densecore.trace.probe import blas, linear, requests, trees
from torch_densecore.trace.probe.follow import Follower
from torch_densecore.trace.probe.rules import Sizes, rules_of
from torch_densecore.trace.probe.table import order_in, product
from torch_densecore.trace.replay import load_calls

LANES = "4 lanes, 4 accumulators, lanes added adjacent"


def test_trees_of_known_orders():
    assert trees.tree(orders.sequential, 5) == "((((0 1) 2) 3) 4)"
    assert trees.tree(orders.pairwise, 5) == "(((0 1) 2) (3 4))"
    assert trees.tree(lambda x: orders.lane_reduce(x, 4, "halves"), 8) == "(((0 4) (2 6)) ((1 5) (3 7)))"
    assert trees.tree(lambda x: x.max(-1), 4) == "not a binary tree of plain additions"


@pytest.mark.parametrize("n", [7, 33, 100, 1000])
def test_every_named_order_is_told_from_the_others_by_its_values(n):
    """Orders with equal signatures must add in the same order: then they agree on any numbers."""
    x = np.random.default_rng(0).standard_normal((50, n)).astype(np.float32)
    by_signature = {}
    for sums in linear.known_orders().values():
        by_signature.setdefault(trees.signature(sums, n), []).append(sums(x).reshape(50))
    for values in by_signature.values():
        for other in values[1:]:
            # masks tell trees apart, not the order of the two operands, which does not change a sum
            assert (values[0] == other).all()
    assert len(by_signature) > 3


def test_names_of_this_hosts_sums():
    names = linear.OrderNames()
    found = linear.describe(linear.operators()["sum (rows)"], 100, names)
    assert found in {f"cascade in {n} lanes" for n in (4, 8, 16)}
    assert linear.describe(linear.operators()["index_add"], 33, names) == "in order"


def test_thread_chunks_of_a_long_sum():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = linear.probe_chunks(1 << 17)
        torch.set_num_threads(1)
        one = linear.probe_chunks(1 << 17)
    finally:
        torch.set_num_threads(before)
    assert two[0] == 1 << 16 and one[:1] != two[:1]


def test_requests_reach_the_operands_they_describe():
    rng = np.random.default_rng(1)
    for shape in (requests.Shape("gemm", t, 3, 5, 7) for t in ("NN", "TN", "NT")):
        rows, column = rng.integers(-4, 5, (8, 7)).astype(np.float32), rng.integers(-4, 5, 7).astype(np.float32)
        assert (requests.compute_all(shape, rows, column) == (rows @ column)[:, None]).all()
        assert requests.compute(shape, rows[:3], column).shape == (3, 5)
    for shape in (requests.Shape("gemv", "N", 4, 1, 7), requests.Shape("gemv", "T", 4, 1, 7), requests.Shape("dot", "*", 1, 1, 7)):
        assert (requests.compute_all(shape, rows, column) == (rows @ column)[:, None]).all()


@pytest.mark.parametrize("name", ["2 chains in turn", f"{LANES}, rounded tail", f"{LANES}, rounded products", blas.CHAIN])
@pytest.mark.parametrize("k", [2, 5, 16, 17, 64])
def test_an_order_is_among_those_that_fit_its_products(name, k, monkeypatch):
    """Also where no accumulator takes a second element, so that nothing shows whether products are fused."""
    answer = lambda shape, rows, column: product(blas.order_of(name), rows, column[None]).repeat(shape.n, 1)  # noqa: E731
    monkeypatch.setattr(blas, "compute_all", answer)
    fitting = blas.Probe().order(requests.Shape("gemm", "NN", 2, 3, k))
    assert set(fitting) == {"first"} and name in fitting["first"]
    assert k < 64 or {each for each in fitting["first"] if "rounded products" in each} == {name} & {f"{LANES}, rounded products"}


def test_a_rule_for_which_time_ran_out_is_unknown(monkeypatch):
    monkeypatch.setattr(blas.Products, "right", lambda self, pair, shape: True)
    monkeypatch.setattr(blas, "write_addends", lambda table: None)
    found = {shape: {"first": {blas.CHAIN}} for shape in requests.shapes() if shape.routine == "gemm"}
    assert blas.table(found, lambda shapes: None)["rules"]
    assert blas.table(found, lambda shapes: None, time_left=lambda: -1.0) is None


def test_an_odd_last_column_may_differ_in_its_tail_alone(monkeypatch):
    def answer(shape, rows, column):
        products = [product(blas.order_of(LANES + ending), rows, column[None]) for ending in ("", ", rounded tail")]
        return np.concatenate([products[0].repeat(shape.n - shape.n % 2, 1), products[1]], 1)[:, : shape.n]

    monkeypatch.setattr(blas, "compute_all", answer)
    shapes = [requests.Shape("gemm", "TN", 4, n, k) for n in (2, 3, 5, 8) for k in (16, 17, 64, 70)]
    rules = blas._rules({shape: blas.Probe().order(shape) for shape in shapes}, "gemm", "T")
    assert len(rules) == 1 and rules[0].candidates[0] == (LANES, f"{LANES}, rounded tail")


def test_the_table_of_rules_finds_a_switch_of_kernels():
    """Requests answered as a made-up library would: one chain from 1000 on, four lanes below, unknown for dot."""
    found = {}
    for shape in requests.shapes():
        if shape.routine == "dot":
            names = {"signature 0123"}
        else:
            names = {blas.CHAIN} if shape.sizes.product >= 1000 else {"4 lanes, 2 accumulators, lanes added adjacent"}
        found[shape] = {"first": names}
    lanes = "4 lanes, 2 accumulators, lanes added adjacent"
    gemm = blas._rules(found, "gemm", "N")
    assert [rule.candidates for rule in gemm] == [[(blas.CHAIN, blas.CHAIN)], [(lanes, lanes)]]
    products = {s.sizes.product for s in found if s.routine == "gemm" and s.trans[0] == "N"}
    assert gemm[0].least == {"product": min(product for product in products if product >= 1000)}
    assert blas.order_of(lanes) == {"lanes": 4, "accumulators": 2, "lane_join": "adjacent", "tail": "fused"}
    assert [rule.candidates for rule in blas._rules(found, "dot", "*")] == [[]]


def test_rules_follow_thresholds_and_keep_what_has_no_name_apart():
    """A made-up library: blocks from 12 x 4 on, unknown for one row, chains else."""
    fits = {}
    for m, n, k in itertools.product((1, 2, 8, 12, 33), (1, 3, 4, 16), (2, 17, 385)):
        kind = {"blocks"} if m >= 12 and n >= 4 else set() if m == 1 else {"chain", "other chain"} if k < 17 else {"chain"}
        fits[Sizes(m, n, k)] = frozenset(kind)
    found = [(each.least, each.orders) for each in rules_of(fits)]
    assert found[0] == ({"m": 12, "n": 4, "k": 2}, {"blocks"})
    for sizes, names in fits.items():
        orders_of = next(o for least, o in found if all(getattr(sizes, name) >= size for name, size in least.items()))
        assert orders_of is None if not names else orders_of <= names
    assert len(found) <= 5


def test_a_random_product_that_a_rule_misses_is_probed_and_the_rules_made_anew(monkeypatch):
    """A library that changes its kernel between two probed sizes."""
    chain, blocks = blas.CHAIN, "chain in blocks of 192"
    answer = lambda shape: {"first": {chain if shape.m < 15 else blocks}}  # noqa: E731
    monkeypatch.setattr(blas.Products, "right", lambda self, pair, shape: pair[0] in answer(shape)["first"])
    monkeypatch.setattr(blas, "write_addends", lambda table: None)
    found = {shape: answer(shape) for shape in requests.shapes((1, 8, 16, 33), (2, 17, 385)) if shape.routine == "gemm"}
    table = blas.table(found, lambda shapes: found.update({shape: answer(shape) for shape in shapes}))
    for shape in requests.other_shapes(33, 385):
        order = order_in(table, shape)
        assert order in (None, blas.order_of(chain if shape.m < 15 else blocks)), shape
    assert order_in(table, requests.Shape("gemm", "NN", 30, 30, 300)) == blas.order_of(blocks)


@pytest.fixture(scope="module")
def probed():
    from torch_densecore.trace.probe import machine

    with torch.no_grad():
        return json.loads(json.dumps({"models": machine.models()}))


def test_following_the_probe_of_this_host_gives_its_bits(probed, tmp_path):
    """The loop of the probe: what it wrote about sum, softmax, layer_norm and mm is enough to compute their bits."""

    def body():
        torch.manual_seed(5)
        with torch.no_grad():
            for n in (29, 123, 257):
                x, w, b = torch.randn(40, n), torch.randn(n), torch.randn(n)
                x.sum(-1), x.mean(-1), F.softmax(x, -1), F.layer_norm(x, (n,), w, b)
            for m, k, n in ((90, 300, 80), (64, 64, 64), (70, 500, 96)):
                torch.mm(torch.randn(m, k), torch.randn(k, n))

    ops = "ops=aten::sum,aten::mean,aten::_softmax,aten::native_layer_norm,aten::mm"
    calls = load_calls(run_traced(tmp_path / "a.dct", body, keep=ops))
    follower, followed = Follower(probed), set()
    for call in calls.values():
        outputs = follower.run(call)
        assert all(torch.equal(x, y) for x, y in zip(outputs, call.outputs, strict=True)), call.site
        followed.add(call.site.op)
    assert followed == {"aten::sum.dim_IntList", "aten::mean.dim", "aten::_softmax", "aten::native_layer_norm", "aten::mm"}


HOST_BITS = str(Path(__file__).with_name("host_bits.py"))
COMPARE = """
import json, torch, torch.nn.functional as F, torch_densecore
from torch_densecore.certify.bits import unequal
torch.manual_seed(7)
off = {}
def compare(name, function, *inputs):
    torch_densecore.accept_cpu_draws()
    outputs = [function(*(t.to(device) for t in inputs)) for device in ("cpu", "densecore")]
    off[name] = off.get(name, 0) + int(unequal(outputs[0], outputs[1].cpu()).sum())
for n in (6, 29, 65, 123, 300, 1000):
    x = torch.randn(41, n) * 3
    compare("sum", lambda x: x.sum(-1), x)
    compare("sum", lambda x: x.sum(0), x)
    compare("mean", lambda x: x.mean(-1), x)
    compare("softmax", lambda x: F.softmax(x, -1), x)
    compare("layer_norm", lambda x, w, b, n=n: F.layer_norm(x, (n,), w, b), x, torch.randn(n), torch.randn(n))
compare("sum", lambda x: x.sum(), torch.randn(100003))
for m, k, n in ((20, 30, 33), (33, 64, 25), (18, 200, 31), (33, 385, 33), (29, 300, 16)):
    compare("mm", torch.mm, torch.randn(m, k), torch.randn(k, n))
    compare("addmm", torch.addmm, torch.randn(n), torch.randn(m, k), torch.randn(n, k).t())
print(json.dumps(off))
"""


def probe_and_compare(python, tmp_path, *options, **variables):
    """Elements off by op, of the device under the profile that a probe wrote, beside torch's CPU ops."""
    path = tmp_path / "profile.json"
    python("-m", "torch_densecore.cli", "probe", "--quick", "-o", str(path), *options, **variables)
    done = python("-c", COMPARE, DENSECORE_PROFILE=str(path), DENSECORE_UNCERTIFIED="error", **variables)
    return json.loads(done.stdout), json.loads(path.read_text())["profile"]


@pytest.mark.parametrize(
    "level", [pytest.param("default", marks=pytest.mark.slow), pytest.param("avx2", marks=pytest.mark.slow), "avx512"]
)
def test_the_device_configured_by_the_probe_of_this_host_has_its_bits(level, python, tmp_path):
    off, profile = probe_and_compare(python, tmp_path, ATEN_CPU_CAPABILITY=level)
    assert set(off) == {"sum", "mean", "softmax", "layer_norm", "mm", "addmm"} and not any(off.values()), off
    assert profile["ops"]["aten::mm"] == {"fma": True} and profile["blas"]["rules"]


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_full_probe_of_this_host_is_enough_for_every_size_and_layout(threads, python, tmp_path):
    path = tmp_path / "host.json"
    python("-m", "torch_densecore.cli", "probe", "-o", str(path), "--seconds", "400", OMP_NUM_THREADS=threads)
    environment = {"DENSECORE_PROFILE": str(path), "DENSECORE_UNCERTIFIED": "error", "OMP_NUM_THREADS": threads}
    done = python(HOST_BITS, **environment)
    found = json.loads(done.stdout.splitlines()[-1])
    assert not any(off for _, _, off in found.values()), found
    calls, refused, _ = found["large mm"]
    assert refused == 0 and calls > 500, found
    assert not any(found[op][1] for op in ("sum", "softmax", "layer_norm")), found


@pytest.mark.oracle
@pytest.mark.slow
def test_the_probe_of_the_emulated_wheel_finds_the_default_profile(python, tmp_path):
    path = tmp_path / "wheel.json"
    python("-m", "torch_densecore.cli", "probe", "--oracle", "-o", str(path))
    probed = json.loads(path.read_text())["profile"]
    assert probed["system"] == "macos-arm64" and probed["threads"] == 4
    assert probed["ops"]["aten::_softmax"] == {"lanes": 4, "lane_join": "halves", "exp": "sleef_u10", "libm": "apple"}
    assert probed["ops"]["aten::native_layer_norm"] == {"lanes": 4, "fma": True, "contract": "clang"}
    assert not [op for op, fields in probed["ops"].items() if "unknown" in fields]
    assert {rule["routine"] for rule in probed["blas"]["rules"]} == {"gemm", "gemv", "dot"}
    done = python(HOST_BITS, "wheel", DENSECORE_PROFILE=str(path), DENSECORE_UNCERTIFIED="error")
    found = json.loads(done.stdout.splitlines()[-1])
    assert not any(off for _, _, off in found.values()), found
    for op in ("sum", "softmax", "layer_norm", "small mm", "small mv", "small dot"):
        calls, refused, _ = found[op]
        assert calls and not refused, (op, found)
