"""Large arguments are used in place: values, written arguments, aliases, and what happens when an operator fails."""

from __future__ import annotations

import pytest
import torch
from both import differences, fresh_units, run_both

from torch_densecore.oracle import guest_tensors
from torch_densecore.oracle.translate.link import LinkError

pytestmark = pytest.mark.oracle
COUNT = guest_tensors.LENT_BYTES // 4 + 5


def _tensor(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def lent(translated, monkeypatch: pytest.MonkeyPatch) -> list[int]:  # type: ignore[no-untyped-def]
    """Sizes of what was lent."""
    cpu, sizes = translated.machine.translated, []
    real = cpu.lend

    def lend(address: int, size: int) -> int | None:
        guest = real(address, size)
        if guest is not None:
            sizes.append(size)
        return guest

    monkeypatch.setattr(cpu, "lend", lend)
    return sizes


CASES = {
    "aten::exp": ((_tensor(COUNT),), {}, 1),
    "aten::add.Tensor": ((_tensor(2 * COUNT)[::2], _tensor(COUNT)), {"alpha": 2}, 2),
    "aten::mul.Tensor": ((_tensor(COUNT, 2).t(), _tensor(2, 1)), {}, 1),
    "aten::add_.Tensor": ((_tensor(COUNT), _tensor(COUNT)), {}, 2),
    "aten::_foreach_mul_.Scalar": (([_tensor(COUNT), _tensor(7)], 3.0), {}, 1),
    "aten::contiguous": ((_tensor(COUNT),), {}, 1),
    "aten::mm": ((_tensor(COUNT // 64, 64), _tensor(64, 5)), {}, 1),
    "aten::sort": ((_tensor(COUNT),), {}, 1),
    "aten::bernoulli_.float": ((_tensor(COUNT), 0.5), {}, 1),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_bits(translated, lent: list[int], name: str) -> None:  # type: ignore[no-untyped-def]
    args, kwargs, count = CASES[name]
    first, second = run_both(translated, name, args, kwargs)
    assert not isinstance(first, str), first
    assert differences(second, first) == 0
    assert len(lent) == count


def test_pooled_tensors_take_new_memory(translated, lent: list[int]) -> None:  # type: ignore[no-untyped-def]
    for seed in range(3):
        x = torch.randn(COUNT, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(translated.call("aten::neg", x), -x)
    assert len(lent) == 3


def test_arguments_with_one_storage(translated) -> None:  # type: ignore[no-untyped-def]
    base = _tensor(3 * COUNT)
    want = base.clone()
    want[:COUNT] += want[COUNT : 2 * COUNT]
    translated.call("aten::add_.Tensor", base[:COUNT], base[COUNT : 2 * COUNT])
    assert torch.equal(base, want)


def test_out_arguments_are_not_lent(translated, lent: list[int]) -> None:  # type: ignore[no-untyped-def]
    x, out = _tensor(COUNT), torch.empty(1)
    translated.call("aten::neg.out", x, out=out)
    assert torch.equal(out, -x) and not lent


def test_more_arguments_than_can_be_lent(translated, lent: list[int]) -> None:  # type: ignore[no-untyped-def]
    tensors = [torch.full((COUNT,), float(i)) for i in range(70)]
    assert torch.equal(translated.call("aten::cat", tensors), torch.cat(tensors))
    assert len(lent) == 64


def test_nothing_stays_lent_after_an_error(translated) -> None:  # type: ignore[no-untyped-def]
    x = _tensor(2, COUNT)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        translated.call("aten::mm", x, x)
    assert not translated.machine.memory.lent
    assert torch.equal(translated.call("aten::neg", x), -x)


def test_emulated_instructions_see_lent_memory(translated, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """A unit that LLVM refuses reads and writes the caller's memory through the emulator."""
    from torch_densecore.oracle.translate import cpu as module

    cpu, real = translated.machine.translated, module.compile_text

    def refuse(text: str, level: int = 2):  # type: ignore[no-untyped-def]
        if "fneg <4 x float>" in text:
            raise LinkError("made up")
        return real(text, level)

    monkeypatch.setattr(module, "compile_text", refuse)
    x = _tensor(COUNT)
    want = -x
    translated.call("aten::neg", x)  # the next one is offered memory for its result
    with fresh_units(cpu, monkeypatch):
        steps = sum(cpu.statistics.steps.values())
        translated.call("aten::neg_", x)
        assert torch.equal(x, want)
        assert cpu.statistics.failed and sum(cpu.statistics.steps.values()) > steps + COUNT // 4
        assert not cpu._lent._shown
        made = cpu.results.claimed
        assert torch.equal(translated.call("aten::neg", x), -x)
        assert cpu.results.claimed == made + 1
        cpu.statistics.failed.clear()
