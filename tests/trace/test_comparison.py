"""Origins, inherited differences, random numbers, alignment, and the three outputs."""

import json
import re

import pytest
import torch
from traced_programs import densecore, rewrite, run_traced, script

from torch_densecore.trace import TraceError, compare
from torch_densecore.trace.html import render
from torch_densecore.trace.results import as_json


@pytest.fixture
def traces(tmp_path):
    """Records functions and compares the first two."""

    def both(a, b):
        torch.manual_seed(3)
        run_traced(tmp_path / "a.dct", a)
        torch.manual_seed(3)
        run_traced(tmp_path / "b.dct", b)
        return compare(tmp_path / "a.dct", tmp_path / "b.dct")

    return both


class Scaled(torch.nn.Module):
    """Multiplies by a number that `torch.export` of another machine might round differently."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.factor = torch.nn.Linear(4, 4), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x).mul(self.factor).tanh())


def run_model(factor: float, repeat: int = 1) -> None:
    torch.manual_seed(0)
    model = Scaled(factor)
    for _ in range(repeat):
        model(torch.randn(3, 4)).sum().backward()


def test_equal_runs(traces):
    result = traces(lambda: run_model(0.5), lambda: run_model(0.5))
    assert not result.differ and set(result.verdicts) == {"equal"} and result.passes["exact"] == result.calls


def changed_trace(tmp_path, index: int, source: str = "a.dct", name: str = "b.dct"):
    """The same trace in which the outputs of one event, and what is computed from them, have other digests."""
    renamed = {}

    def change(value):
        if isinstance(value, list):
            touched = value[0] == index or any(d in renamed for d in value[2])
            value[2] = [renamed.get(d, d) for d in value[2]]
            if touched:
                value[3] = [renamed.setdefault(d, d and "f" + d[1:-1] + "e") for d in value[3]]
        return value

    rewrite(tmp_path / source, tmp_path / name, change)


def test_the_origin_is_found_and_what_follows_is_inherited(tmp_path):
    run_traced(tmp_path / "a.dct", lambda: run_model(0.5))
    from torch_densecore.trace import TraceReader

    events = list(TraceReader(tmp_path / "a.dct").events())
    index = next(e.index for e in events if e.site.op == "aten::mul.Tensor" and e.site.phase == "forward")
    changed_trace(tmp_path, index)
    result = compare(tmp_path / "a.dct", tmp_path / "b.dct")
    (origin,) = result.origins
    assert (origin.kind, origin.op, origin.module, origin.phase) == ("arithmetic", "aten::mul.Tensor", "(Scaled)", "forward")
    assert origin.first == (index, index)
    assert result.verdicts["origin"] == 1 and result.verdicts["inherited"] >= 4 and result.verdicts["equal"] >= index


def test_all_origins_are_listed_with_their_repetitions(tmp_path):
    def body():
        for _ in range(3):
            torch.ones(3).exp()
            torch.ones(5).exp()

    run_traced(tmp_path / "a.dct", body)
    names = ["a.dct", "b.dct", "c.dct", "d.dct"]
    for source, name, index in zip(names, names[1:], (1, 5, 7), strict=False):
        changed_trace(tmp_path, index, source, name)
    result = compare(tmp_path / "a.dct", tmp_path / "d.dct")
    assert {o.first: o.events for o in result.origins} == {(1, 1): [(1, 1), (5, 5)], (7, 7): [(7, 7)]}


def test_scalar_arguments_are_told_apart(traces):
    result = traces(lambda: run_model(0.5), lambda: run_model(0.25))
    kinds = {(o.kind, o.op) for o in result.origins}
    assert ("arguments", "aten::mul.Tensor") in kinds and not any(kind == "arithmetic" for kind, _ in kinds)
    assert "0.5 / 0.25" in next(o.detail for o in result.origins if o.op == "aten::mul.Tensor")


def test_generator_state_is_told_from_arithmetic(traces):
    def body(extra):
        torch.manual_seed(1)
        torch.rand(4)
        if extra:
            torch.get_rng_state()
            torch.default_generator.manual_seed(2)
        torch.rand(4)
        torch.rand(4) + 1

    result = traces(lambda: body(False), lambda: body(True))
    assert [(o.kind, o.first) for o in result.origins] == [("generator state", (1, 1))]
    assert result.verdicts["inherited"] == 2


def test_an_extra_draw_has_no_partner_and_the_next_draw_is_the_origin(traces):
    def body(extra):
        torch.manual_seed(1)
        if extra:
            torch.rand(7)
        torch.rand(4)

    result = traces(lambda: body(False), lambda: body(True))
    assert result.verdicts["only b"] == 1 and [o.kind for o in result.origins] == ["generator state"]


def test_data_from_outside_is_told_apart(traces):
    result = traces(lambda: torch.tensor([1.0, 2.0]) * 2, lambda: torch.tensor([1.0, 3.0]) * 2)
    assert {o.kind for o in result.origins} == {"data"} and len(result.origins) == 1


def test_dropout_of_zero_is_no_random_origin(tmp_path):
    run_traced(tmp_path / "a.dct", lambda: torch.nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 1, 4, 8)))
    changed_trace(tmp_path, 4)
    result = compare(tmp_path / "a.dct", tmp_path / "b.dct")
    assert all(o.kind != "random numbers" for o in result.origins)


def test_alignment_survives_extra_and_reordered_calls(traces):
    def a():
        for n in range(2, 8):
            torch.ones(n).exp()
        torch.ones(9).add(1)

    def b():
        torch.ones(3).exp()  # exchanged with the next
        torch.ones(2).exp()
        torch.ones(100)  # extra
        for n in range(4, 8):
            torch.ones(n).exp()
        torch.ones(9).add_(1)  # in place on one side

    result = traces(a, b)
    assert result.verdicts["only b"] == 1 and result.verdicts["only a"] == 0
    assert result.verdicts["equal"] == result.calls - 1
    assert result.passes == {"exact": 13, "shape": 1}


def test_sequence_alignment_where_counts_differ(traces):
    def body(count):
        torch.ones(30 + count).exp()
        for _ in range(count):
            torch.ones(4).log()
        torch.ones(5).sin()

    result = traces(lambda: body(2), lambda: body(5))
    assert result.passes == {"exact": 2, "sequence": 4} and result.verdicts["only b"] == 8 and result.verdicts["only a"] == 2


def test_unequal_lengths(traces):
    result = traces(lambda: run_model(0.5, 1), lambda: run_model(0.5, 3))
    assert result.verdicts["only a"] == 0 and result.verdicts["only b"] > 10 and not result.origins
    assert result.differ


def test_other_memory_layouts_are_not_called_differences(traces):
    x = torch.randn(3, 4, 5)
    result = traces(lambda: x.contiguous() * 2, lambda: x.permute(2, 0, 1).contiguous().permute(1, 2, 0) * 2)
    assert result.layouts and not result.origins


def test_order_of_accumulated_gradients(traces):
    def body(swap):
        p, q = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        model = torch.nn.ParameterList([p, q])

        class Holder(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = model

            def forward(self):
                one, other = reversed(self.parts) if swap else self.parts
                return one * 2 + other * 3

        Holder()().sum().backward()

    result = traces(lambda: body(False), lambda: body(True))
    assert result.accumulation and set(result.accumulation[0][1]) == {"parts.0", "parts.1"}


def test_different_programs_are_refused(tmp_path, traces):
    with pytest.raises(TraceError, match="different programs: only"):
        traces(lambda: [torch.ones(n).exp() for n in range(9)], lambda: [torch.zeros(n, 2).sin() for n in range(9)])


def test_exit_codes_and_json(tmp_path):
    program = str(script(tmp_path))
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert densecore("record", "-o", f"{name}.dct", "--", program, seed, cwd=tmp_path).returncode == 0
    same = densecore("diff", "a.dct", "b.dct", cwd=tmp_path)
    assert same.returncode == 0 and "same bits" in same.stdout
    other = densecore("diff", "a.dct", "c.dct", "--json", cwd=tmp_path)
    data = json.loads(other.stdout)
    assert other.returncode == 1 and not data["equal"] and data["origins"][0]["kind"] == "generator state"
    assert {"name": "program.command", "a": f"{program} 0", "b": f"{program} 1"} in data["environment"]


def test_html_is_self_contained_and_escaped(tmp_path):
    run_traced(tmp_path / "a.dct", lambda: run_model(0.5, 2))
    changed_trace(tmp_path, 8)
    result = compare(tmp_path / "a.dct", tmp_path / "b.dct")
    result.environment.append(("<script>", "a & b", None))
    page = render(result, {result.origins[0].first: "rounding <only>"})
    assert not re.search(r"(?:src|href)\s*=|https?:|@import|<script", page)
    assert "prefers-color-scheme: dark" in page and "<details" in page and "<svg" in page
    assert "&lt;script&gt;" in page and "a &amp; b" in page and "rounding &lt;only&gt;" in page
    assert page.count("<details") == page.count("</details>") and "$" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    json.dumps(as_json(result), allow_nan=False)
