"""Recording changes no bit and writes what happened, also when the run dies."""

import signal
import subprocess
import sys
import time

import pytest
import torch
from traced_programs import ROOT, densecore, rewrite, run_traced, script, train

from torch_densecore.trace import TraceError, TraceReader, record, validate
from torch_densecore.trace.format import Event
from torch_densecore.trace.replay import load_calls


def events_of(path) -> list[Event]:
    return list(TraceReader(path).events())


def test_recording_does_not_change_a_bit(tmp_path):
    plain = train()
    with record(tmp_path / "a.dct", keep="ops=*"):
        recorded = train()
    again = train()
    for x, y, z in zip(plain, recorded, again, strict=True):
        assert x.dtype == y.dtype and x.tolist() == y.tolist() == z.tolist()


def test_methods_and_hooks_are_as_before_afterwards(tmp_path):
    from torch.nn.modules import module

    before = (torch.Tensor.__dict__.get("numpy"), len(module._global_forward_hooks), len(module._global_forward_pre_hooks))
    with record(tmp_path / "a.dct"):
        assert torch.Tensor.__dict__.get("numpy") is not before[0]
    assert before == (
        torch.Tensor.__dict__.get("numpy"), len(module._global_forward_hooks), len(module._global_forward_pre_hooks)
    )  # fmt: skip


def test_fields_of_forward_backward_and_optimizer(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with record(tmp_path / "a.dct"):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        torch.zeros(1)
    events = events_of(tmp_path / "a.dct")
    found = {(e.site.op, e.site.phase): e for e in events}
    linear, tanh = found["aten::addmm", "forward"], found["aten::tanh", "forward"]
    assert (linear.site.module, tanh.site.module) == ("0", "1.0")
    assert [m["shape"] for m in linear.site.inputs] == [[3], [2, 4], [4, 3]]
    assert linear.site.inputs[2]["stride"] == [1, 4]
    assert "test_recorder.py" in linear.site.source and "test_fields" in linear.site.source
    backward = found["aten::tanh_backward", "backward"]
    assert (backward.site.module, backward.site.node) == ("1.0", "TanhBackward0")
    assert backward.site.source == tanh.site.source
    assert {e.site.param for e in events if e.site.node == "AccumulateGrad"} == {"0.weight", "0.bias"}
    update = found["aten::_foreach_add_.List", "optimizer"] if ("aten::_foreach_add_.List", "optimizer") in found else found[
        "aten::add_.Tensor", "optimizer"]
    assert update.step == 0
    assert found["aten::zeros", "forward"].step == 1


def test_in_place_operators_have_their_old_input_and_their_new_output(tmp_path):
    x = torch.ones(3)
    with record(tmp_path / "a.dct"):
        x.add_(1)
        x * 1
    add, mul = events_of(tmp_path / "a.dct")
    assert add.inputs[0] != add.outputs[0] == mul.inputs[0] == mul.outputs[0]


def test_memory_without_a_value_has_no_digest(tmp_path):
    with record(tmp_path / "a.dct"):
        torch.empty(1000).fill_(2.0)
    empty, fill = events_of(tmp_path / "a.dct")
    assert empty.outputs == [None] and fill.inputs == [None] and fill.outputs[0] is not None


def test_writes_through_numpy_are_seen(tmp_path):
    with record(tmp_path / "a.dct"):
        x = torch.zeros(3)
        x.numpy()[0] = 5
        x + 1
    assert events_of(tmp_path / "a.dct")[-1].inputs[0] != events_of(tmp_path / "a.dct")[0].outputs[0]


def test_random_operators_have_the_generator_before_and_after(tmp_path):
    with record(tmp_path / "a.dct"):
        torch.manual_seed(1)
        torch.rand(3)
        torch.ones(3) + 1
        torch.rand(3)
    rand, ones, add, again = events_of(tmp_path / "a.dct")
    assert ones.rng is None and add.rng is None
    assert rand.rng[0] != rand.rng[1] == again.rng[0] != again.rng[1]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_run_leaves_a_readable_file(tmp_path):
    program = script(tmp_path, "import torch\nx = torch.ones(5)\nprint('go', flush=True)\nwhile True: x = x * 1.5\n")
    command = [sys.executable, "-m", "torch_densecore.cli", "record", "-o", "run.dct", "--", str(program)]
    process = subprocess.Popen(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    time.sleep(1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    summary = validate(tmp_path / "run.dct")
    assert summary.status == "killed" and summary.events > 2
    assert summary.problem is None or "cut off" in summary.problem
    assert densecore("validate", "run.dct", cwd=tmp_path).returncode == 1


def test_an_exception_is_in_the_file_and_passes_through(tmp_path):
    with pytest.raises(ZeroDivisionError), record(tmp_path / "a.dct"):
        torch.ones(2)
        1 / 0  # noqa: B018
    summary = validate(tmp_path / "a.dct")
    assert (summary.events, summary.status, summary.error) == (1, "exception", "ZeroDivisionError: division by zero")


def test_kept_tensors_come_back_with_their_strides_and_values(tmp_path):
    x = torch.randn(4, 6)
    bits = x.bfloat16()
    with record(tmp_path / "a.dct", keep=["ops=aten::mul,aten::sum*", "steps=0"]):
        x.t() * x.t()
        x.clone().add_(1)
        bits[:1].expand(3, 6).sum(0)
    calls = load_calls(tmp_path / "a.dct")
    assert [call.site.op for call in calls.values()] == ["aten::mul.Tensor", "aten::sum.dim_IntList"]
    mul, total = calls.values()
    assert mul.inputs[0].stride() == (1, 6) and torch.equal(mul.inputs[0], x.t()) and torch.equal(mul.outputs[0], x.t() ** 2)
    assert total.inputs[0].stride() == (0, 1) and torch.equal(total.inputs[0], bits[:1].expand(3, 6))


def test_in_place_operators_keep_what_they_overwrote(tmp_path):
    x = torch.ones(3)
    with record(tmp_path / "a.dct", keep="ops=aten::add_"):
        x.add_(1)
    (call,) = load_calls(tmp_path / "a.dct").values()
    assert call.inputs[0].tolist() == [1, 1, 1] and call.outputs[0].tolist() == [2, 2, 2]


def test_tensors_over_the_cap_are_noted_not_stored(tmp_path):
    with record(tmp_path / "a.dct", keep="ops=*", keep_limit=100):
        torch.ones(10)
        torch.ones(1000)
        torch.ones(10)
    summary = validate(tmp_path / "a.dct")
    assert summary.tensors == 2 and "1 operators did not fit" in summary.notes[0]


def test_first_divergence_keeps_the_call_that_differs(tmp_path):
    def body(factor):
        y = torch.full((4,), 3.0) * 2
        torch.manual_seed(0)
        return y.exp() if factor else y.log()

    run_traced(tmp_path / "a.dct", lambda: body(0))
    # a run that is the same but for one operator's outputs: only its digest is changed
    run_traced(tmp_path / "b.dct", lambda: body(0), keep="first-divergence", against=tmp_path / "a.dct")
    assert validate(tmp_path / "b.dct").tensors == 0

    def change(value):
        return [*value[:3], ["0" * 32], *value[4:]] if isinstance(value, list) and value[0] == 2 else value

    rewrite(tmp_path / "a.dct", tmp_path / "c.dct", change)
    run_traced(tmp_path / "d.dct", lambda: body(0), keep="first-divergence", against=tmp_path / "c.dct")
    assert [call.site.op for call in load_calls(tmp_path / "d.dct").values()] == ["aten::log"]


@pytest.mark.parametrize("keep, message", [
    ("everything", "use first-divergence, ops="), ("steps=x", "not a number"), ("first-divergence", "--against"), ("ops=", "use"),
])  # fmt: skip
def test_a_wrong_choice_of_tensors_is_explained(tmp_path, keep, message):
    with pytest.raises(TraceError, match=message), record(tmp_path / "a.dct", keep=keep):
        pass


def test_command_runs_scripts_modules_and_code_with_their_arguments(tmp_path):
    program = script(tmp_path, "import sys, torch\ntorch.ones(2)\nprint(sys.argv, __name__)\nsys.exit(int(sys.argv[1]))\n")
    done = densecore("record", "-o", "a.dct", "--", "python", str(program), "3", "--lr=1", cwd=tmp_path)
    assert done.returncode == 3 and done.stdout == f"['{program}', '3', '--lr=1'] __main__\n"
    assert validate(tmp_path / "a.dct").status == "exception"  # it did not end with 0
    done = densecore("record", "-o", "b.dct", "--", "-m", "train", "0", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("'0'] __main__\n")
    done = densecore("record", "-o", "c.dct", "--", "python", "-u", "-c", "import torch; torch.ones(1)", cwd=tmp_path)
    assert done.returncode == 0 and validate(tmp_path / "c.dct").events == 1
    program = TraceReader(tmp_path / "c.dct").environment["program"]
    assert program["command"][0] == "-c"


def test_command_says_what_is_wrong_without_a_traceback(tmp_path):
    for words, message in [
        (["--", "ls", "-l"], "no such script"), ([], "no program given"), (["--", "python"], "no script"),
        (["--", "python-of-no-one", "train.py"], "no such"), (["--keep-tensors", "all", "--", "-c", "1"], "keep"),
    ]:  # fmt: skip
        done = densecore("record", "-o", "a.dct", *words, cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_a_failing_program_shows_its_own_traceback_and_the_trace_is_kept(tmp_path):
    done = densecore("record", "-o", "a.dct", "--", "-c", "import torch; torch.ones(2) @ torch.ones(3)", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" in done.stderr and "size" in done.stderr
    assert validate(tmp_path / "a.dct").events == 2


def test_environment_is_recorded(tmp_path):
    with record(tmp_path / "a.dct"):
        pass
    environment = TraceReader(tmp_path / "a.dct").environment
    assert environment["torch"]["version"] == torch.__version__
    assert environment["threads"]["intra_op"] == torch.get_num_threads()
    assert environment["cpu"]["model"] and environment["packages"]["torch"] and environment["settings"]["default_dtype"]


def test_several_processes_do_not_share_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(TraceError, match="rank"), record(tmp_path / "a.dct"):
        pass
    with record(tmp_path / "a.{rank}.dct"):
        torch.ones(1)
    assert validate(tmp_path / "a.1.dct").events == 1
