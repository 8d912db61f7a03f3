"""Trees of known orders are found and named; a probe of this host is enough to compute as it does."""

import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from traced_programs import run_traced

from torch_densecore.trace.explain import orders
from torch_densecore.trace.probe import blas, linear, trees
from torch_densecore.trace.probe.follow import Follower, device_profile
from torch_densecore.trace.replay import load_calls


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
    for shape in (blas.Shape("gemm", t, 3, 5, 7) for t in ("NN", "TN", "NT")):
        row, column = rng.integers(-4, 5, (2, 7)).astype(np.float32)
        assert (blas.compute(shape, row, column) == row @ column).all()
        assert blas.compute(shape, row, column).shape == (3, 5)
    for trans in "NT":
        assert blas.compute(blas.Shape("gemv", trans, 4, 1, 7), row, column).tolist() == [[row @ column]] * 4


def test_the_table_of_rules_finds_a_switch_of_kernels():
    """Requests answered as a made-up library would: one chain from 1000 on, four lanes below, unknown for dot."""
    found = {}
    for shape in blas.shapes():
        if shape.routine == "dot":
            names = {"signature 0123"}
        else:
            names = {blas.CHAIN} if shape.product >= 1000 else {"4 lanes, 2 accumulators, lanes added adjacent"}
        found[shape] = {"first": names}
    table = blas.table(found)
    gemm = [rule for rule in table["rules"] if rule["routine"] == "gemm" and rule["transa"] == "N"]
    assert [rule["order"] for rule in gemm] == [blas.CHAIN, "4 lanes, 2 accumulators, lanes added adjacent"]
    products = {s.product for s in found if s.routine == "gemm" and s.trans[0] == "N"}
    assert gemm[0]["minimum_product"] == min(product for product in products if product >= 1000)
    assert table["orders"]["4 lanes, 2 accumulators, lanes added adjacent"] == {"lanes": 4, "accumulators": 2, "tail": "fused"}
    probe = {
        "products": {"table": table}, "lanes": 4,
        "environment": {"torch": {"version": "2.13.0"}, "threads": {"intra_op": 4}},
    }  # fmt: skip
    profile, left = device_profile(json.loads(json.dumps(probe)))
    assert left == ["dot *: signature 0123"] or left == ["dot : signature 0123"]
    assert all("unsupported" not in order for order in profile["blas"]["orders"].values())
    assert {rule["routine"] for rule in profile["blas"]["rules"]} == {"gemm", "gemv"}


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
