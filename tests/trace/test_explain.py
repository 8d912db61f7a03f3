"""The explanations name the arithmetic that made a side, on every machine: the sides are computed by known orders."""

import fractions
import math
import platform
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from traced_programs import densecore, run_traced

from torch_densecore.trace import TraceReader, compare
from torch_densecore.trace.digest import tensor_digest
from torch_densecore.trace.explain import arith, functions, orders
from torch_densecore.trace.explain.explanation import explain
from torch_densecore.trace.explain.models import candidates
from torch_densecore.trace.format import TraceWriter
from torch_densecore.trace.keep import pack
from torch_densecore.trace.replay import load_calls, replay, run

F32 = np.float32
floats = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**60), max_value=2.0**60)


@settings(max_examples=500, deadline=None)
@given(floats, floats, floats)
def test_fma_rounds_once(a, b, c):
    exact = fractions.Fraction(a) * fractions.Fraction(b) + fractions.Fraction(c)
    got = float(arith.fma(F32(a), F32(b), F32(c)))
    if not math.isfinite(got):
        assert abs(exact) >= fractions.Fraction(2) ** 127
        return
    below, above = np.nextafter(F32(got), F32(-np.inf)), np.nextafter(F32(got), F32(np.inf))
    error = abs(fractions.Fraction(got) - exact)
    for neighbour in (below, above):
        if np.isfinite(neighbour):
            distance = abs(fractions.Fraction(float(neighbour)) - exact)
            assert error < distance or (error == distance and F32(got).view(np.uint32) % 2 == 0)


def test_fma_where_two_roundings_go_wrong():
    # a*b + c lies just above the middle of two float32, closer than a float64 can tell from the middle itself
    a, b, c = F32(1 + 2.0**-23), F32(1 + 2.0**-23), F32(2.0**60)
    assert float(arith.fma(a, b, c)) == 2.0**60
    x, y, z = F32(1 + 2.0**-12), F32(1 + 2.0**-12), F32(-(1 + 2.0**-11))
    assert float(arith.fma(x, y, z)) == 2.0**-24


def record_call(tmp_path, body, op):
    run_traced(tmp_path / "a.dct", body, keep=f"ops={op}")
    return next(iter(load_calls(tmp_path / "a.dct").values()))


def write_side(path, call, outputs, tensors=True):
    """A trace of one call with other outputs."""
    site = call.site
    writer = TraceWriter(path, 0)
    writer.write({"environment": {}})
    names = ("op", "module", "phase", "source", "node", "param", "args", "inputs", "outputs")
    writer.write({"site": 0, **{name: getattr(site, name) for name in names}, "module": "h.0.ln_1"})
    writer.write([0, 0, call.event.inputs, [tensor_digest(t) for t in outputs], [None] * len(outputs), None])
    if tensors:
        stored = {f"in.{i}": t for i, t in enumerate(call.inputs)} | {f"out.{i}": t for i, t in enumerate(outputs)}
        writer.write_tensors(0, pack(stored))
    writer.write({"end": {"status": "complete", "events": 1}})
    writer.close()


def explained(tmp_path, call, a, b, **options):
    for name, values in (("x.dct", a), ("y.dct", b)):
        shapes = [meta["shape"] for meta in call.site.outputs]
        write_side(tmp_path / name, call, [torch.from_numpy(np.asarray(v)).reshape(s) for v, s in zip(values, shapes, strict=True)])
    (answer,) = explain(compare(tmp_path / "x.dct", tmp_path / "y.dct"), replays=False, **options)
    return answer


def test_lanes_of_a_sum(tmp_path):
    call = record_call(tmp_path, lambda: torch.randn(512, 300).sum(1), "aten::sum")
    x = call.inputs[0].numpy()
    answer = explained(tmp_path, call, [orders.cascade(x, 4)], [orders.cascade(x, 16)])
    assert "side A: adds in 4 lanes (NEON, SSE)" in answer.text and "side B: adds in 16 lanes (AVX-512)" in answer.text
    assert "h.0.ln_1" in answer.text and "of 512 differ" in answer.text and "rounding only, no bug" in answer.text
    assert answer.verdict == "rounding" and answer.explained and answer.difference.exact


def test_threads_of_a_long_sum(tmp_path):
    # one value per sum: a seed with which the two orders happen to differ
    one = four = None
    for seed in range(50):
        torch.manual_seed(seed)
        call = record_call(tmp_path, lambda: torch.randn(100_000).sum(), "aten::sum")
        x = call.inputs[0].numpy()[None]
        one, four = orders.cascade_chunks(x, 8, 1), orders.cascade_chunks(x, 8, 4)
        if one[0] != four[0] and len({orders.cascade_chunks(x, 8, t)[0] for t in (1, 2, 4)}) == 3:
            break
    answer = explained(tmp_path, call, [one], [four])
    assert "in one piece" in answer.text and "cut into 4 thread chunks" in answer.text


def test_blocks_and_fusion_of_a_product(tmp_path):
    call = record_call(tmp_path, lambda: torch.mm(torch.randn(9, 400), torch.randn(400, 11)), "aten::mm")
    a, b = (t.contiguous().numpy() for t in call.inputs)
    left, right = a[:, None, :], b.T[None]
    chain, blocked = orders.dot(left, right), orders.dot(left, right, block=256)
    answer = explained(tmp_path, call, [chain], [blocked])
    assert "side A: one chain along k" in answer.text and "side B: one chain along k in blocks of 256" in answer.text
    answer = explained(tmp_path, call, [chain], [orders.dot(left, right, fused=False)])
    assert "fused multiply-add" in answer.text and "rounded products" in answer.text and answer.verdict == "rounding"


def test_exponential_of_a_softmax(tmp_path):
    call = record_call(tmp_path, lambda: F.softmax(torch.randn(40, 65), -1), "aten::_softmax")
    x = call.inputs[0].numpy()
    shifted = x - x.max(-1, keepdims=True)

    def side(exp, lanes):
        e = exp(shifted)
        return [e * (F32(1) / orders.lane_reduce(e, lanes, "halves")[:, None])]

    answer = explained(tmp_path, call, side(functions.exp_u20, 4), side(functions.exp_sleef, 4))
    assert "exp by ATen's exp_u20 for x86" in answer.text and "exp by SLEEF" in answer.text and "4 lanes" in answer.text


def test_layer_norm_moments(tmp_path):
    call = record_call(tmp_path, lambda: F.layer_norm(torch.randn(20, 384), (384,)), "aten::native_layer_norm")
    x = call.inputs[0].numpy()

    def side(lanes):
        mean, variance = orders.moments(x, lanes, True)
        rstd = F32(1) / np.sqrt(variance + F32(1e-5))
        return [(x - mean[:, None]) * rstd[:, None], mean, rstd]

    answer = explained(tmp_path, call, side(4), side(8))
    assert "mean and variance in 4 lanes" in answer.text and "mean and variance in 8 lanes" in answer.text


def test_fused_body_and_rounded_tail(tmp_path):
    call = record_call(tmp_path, lambda: torch.addcmul(*torch.randn(3, 1001), value=0.3), "aten::addcmul")
    x, y, z = (t.numpy() for t in call.inputs)
    body, tail = arith.fma(F32(0.3) * y, z, x), (x + F32(0.3) * y * z).astype(F32)
    mixed = np.concatenate([body[:992], tail[992:]])
    answer = explained(tmp_path, call, [body], [mixed])
    assert "fused last step" in answer.text and re.search(r"side B: .*the last \d+ elements rounded products", answer.text)


def test_conversion_rules(tmp_path):
    call = record_call(tmp_path, lambda: torch.tensor([1e10, -1e10, 3.7, float("nan")]).to(torch.int32), "aten::_to_copy")
    answer = explained(tmp_path, call, [np.int32([2**31 - 1, -(2**31), 3, 0])], [np.int32([-(2**31), -(2**31), 3, -(2**31)])])
    assert "saturate" in answer.text and "smallest integer" in answer.text


def test_normal_algorithms(tmp_path):
    def body():
        torch.manual_seed(4)
        torch.empty(37).normal_(1.0, 2.0)

    call = record_call(tmp_path, body, "aten::normal_")
    by_words = {model.words(): model for model in candidates(call)}
    ours = next(w for w, m in by_words.items() if tensor_digest(torch.from_numpy(m.compute()[0])) == call.event.outputs[0])
    scalar = by_words["blocks of 16 by Box-Muller, scalar code with correctly rounded functions"].compute()[0]
    if platform.machine() in ("x86_64", "AMD64") and "DEFAULT" not in torch.backends.cpu.get_cpu_capability():
        assert ours == "blocks of 16 by Box-Muller, AVX2 code with Cephes polynomials, fused"
        assert (scalar != call.outputs[0].numpy()).any()
    assert np.allclose(scalar, call.outputs[0].numpy(), rtol=1e-4, atol=1e-5)


def test_a_bug_is_not_called_rounding(tmp_path):
    call = record_call(tmp_path, lambda: torch.randn(8, 300).sum(1), "aten::sum")
    x = call.inputs[0].numpy()
    wrong = orders.cascade(x, 4).copy()
    wrong[3] += F32(0.01)
    answer = explained(tmp_path, call, [orders.cascade(x, 4)], [wrong])
    assert answer.verdict == "beyond rounding" and "NOT rounding: side B" in answer.text and not answer.explained


@pytest.mark.parametrize("error, verdict", [(1e-7, "rounding"), (1e-4, "beyond rounding")])
def test_what_cancels_in_a_gradient_is_rounding(tmp_path, error, verdict):
    """The gradient of softmax's sum is 0 but for rounding; a real error is far larger."""

    def body():
        y = (torch.randn(8, 40) / 3).softmax(-1)
        torch.ops.aten._softmax_backward_data(torch.ones(8, 40), y, -1, torch.float32)

    call = record_call(tmp_path, body, "aten::_softmax_backward_data")
    y = call.inputs[1].numpy()
    sides = [[np.ascontiguousarray(y * F32(size), F32)] for size in (error, -error)]
    assert explained(tmp_path, call, *sides).verdict == verdict


def test_no_model_is_said(tmp_path):
    call = record_call(tmp_path, lambda: torch.randn(8, 3).cumprod(1), "aten::cumprod")
    value = call.outputs[0].numpy()
    answer = explained(tmp_path, call, [value], [np.nextafter(value, F32(9))])
    assert "no arithmetic model for this operator" in answer.text and "max 1 ulp" in answer.text


def test_missing_tensors_are_said_with_the_way_out(tmp_path):
    call = record_call(tmp_path, lambda: torch.randn(8, 30).sum(1), "aten::sum")
    write_side(tmp_path / "x.dct", call, [call.outputs[0]], tensors=False)
    write_side(tmp_path / "y.dct", call, [call.outputs[0] + 1], tensors=False)
    (answer,) = explain(compare(tmp_path / "x.dct", tmp_path / "y.dct"), replays=False)
    assert "--keep-tensors first-divergence" in answer.text and answer.verdict == "unknown"


def test_replay_makes_the_same_bits_again(tmp_path):
    def body():
        torch.manual_seed(2)
        x = torch.randn(6, 7, requires_grad=True)
        (F.dropout(F.layer_norm(x @ x.t(), (6,)), 0.4).exp().sum() + torch.randperm(9).float().sum()).backward()
        x.detach().bernoulli_(0.3)

    run_traced(tmp_path / "a.dct", body, keep="ops=*")
    made, failed = replay(tmp_path / "a.dct", tmp_path / "b.dct")
    assert failed == 0 and made == len(list(TraceReader(tmp_path / "a.dct").events()))
    result = compare(tmp_path / "a.dct", tmp_path / "b.dct")
    assert not result.differ and result.verdicts["equal"] == made


def test_an_expanded_input_is_replayed_as_it_lay(tmp_path):
    run_traced(tmp_path / "a.dct", lambda: torch.arange(3.0).expand(4, 3).sum(0), keep="ops=aten::sum")
    (call,) = load_calls(tmp_path / "a.dct").values()
    assert call.inputs[0].stride() == (0, 1) and run(call)[0].tolist() == [0, 4, 8]


PROGRAM = "import torch\ntorch.manual_seed(0)\nx = torch.randn(64, 301)\ntorch.softmax(x, 1).sum()\n"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="ATEN_CPU_CAPABILITY chooses among x86 levels")
def test_two_instruction_sets_of_this_machine(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    env = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
    assert densecore("record", "-o", "a.dct", "--", "train.py", cwd=tmp_path).returncode == 0
    done = densecore(
        "record", "-o", "b.dct", "--keep-tensors", "first-divergence", "--against", "a.dct", "--", "train.py",
        cwd=tmp_path, env=env,
    )  # fmt: skip
    assert done.returncode == 0
    result = compare(tmp_path / "a.dct", tmp_path / "b.dct")
    if not result.differ:
        pytest.skip("this machine has no better instruction set than the default")
    answers = explain(result)
    assert any("DEFAULT, 1 thread" == name for answer in answers for name in answer.replays_b)
    assert all(answer.verdict != "beyond rounding" for answer in answers)
