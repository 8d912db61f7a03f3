"""Large results are made in the host's memory: values, independence, wrong guesses, and what the guest does not give back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from both import BothMode, differences, run_both, unset_elements

from torch_densecore.oracle import guest_tensors, native
from torch_densecore.oracle.translate.results import ResultMemory

pytestmark = pytest.mark.oracle
COUNT = guest_tensors.LENT_BYTES // 4 + 5


def _tensor(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CASES = {
    "aten::exp": ((_tensor(COUNT),), 1),
    "aten::mul.Tensor": ((_tensor(COUNT, 2).t(), _tensor(2, 1)), 1),
    "aten::sort": ((_tensor(COUNT),), 2),
    "aten::native_layer_norm": ((_tensor(64, COUNT // 64), [COUNT // 64], None, None, 1e-5), 1),
    "aten::_softmax": ((_tensor(64, COUNT // 64 + 1), 1, False), 1),
    "aten::cumsum": ((_tensor(COUNT, 3), 0), 1),
    "aten::mm": ((_tensor(COUNT // 64, 64), _tensor(64, 128)), 1),
    "aten::addmm": ((_tensor(128), _tensor(128, COUNT // 128), _tensor(COUNT // 128, 128)), 1),
    "aten::unfold": ((_tensor(COUNT), 0, 4, 2), 0),  # a view of the argument
    "aten::std.dim": ((_tensor(COUNT, 2), [0]), 0),
    "aten::index_select": ((_tensor(COUNT), 0, torch.arange(COUNT - 1, -1, -1)), 1),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_bits(translated, name: str) -> None:  # type: ignore[no-untyped-def]
    args, count = CASES[name]
    memory = translated.machine.translated.results
    translated.call(name, *args)
    before = memory.claimed
    for _ in range(3):
        first, second = run_both(translated, name, args, {})
        assert not isinstance(first, str), first
        assert differences(second, first) == 0
    assert memory.claimed == before + 3 * count
    assert not memory._offered


def test_results_are_tensors_of_their_own(translated) -> None:  # type: ignore[no-untyped-def]
    inputs = [_tensor(COUNT, seed=seed) for seed in range(5)]
    results = [translated.call("aten::neg", x) for x in inputs]
    assert len({y.data_ptr() for y in results}) == 5
    results[1].zero_()
    results[2].resize_(2 * COUNT)[COUNT:] = 7
    translated.call("aten::exp", inputs[0])
    assert torch.equal(results[0], -inputs[0]) and torch.equal(results[4], -inputs[4])
    assert not results[1].any() and torch.equal(results[2][:COUNT], -inputs[2]) and bool((results[2][COUNT:] == 7).all())
    assert results[3].untyped_storage().nbytes() == 4 * COUNT


def test_a_wrong_guess_is_copied(translated) -> None:  # type: ignore[no-untyped-def]
    x = _tensor(2 * COUNT)
    for mask in (torch.ones(2 * COUNT, dtype=torch.bool), x > 0, x > -1, torch.zeros(2 * COUNT, dtype=torch.bool)):
        assert torch.equal(translated.call("aten::masked_select", x, mask), x[mask])


def test_a_call_that_fails_gives_back_what_it_took(translated) -> None:  # type: ignore[no-untyped-def]
    x, good, bad = _tensor(COUNT), torch.arange(COUNT), torch.full((COUNT,), COUNT)
    memory = translated.machine.translated.results
    for _ in range(20):  # more often than there are slots
        assert torch.equal(translated.call("aten::index_select", x, 0, good), x)
        with pytest.raises(IndexError):
            translated.call("aten::index_select", x, 0, bad)
    assert not memory._offered and not translated.machine.memory.lent


def test_arrays_are_copied(translated) -> None:  # type: ignore[no-untyped-def]
    x = _tensor(COUNT).numpy()
    before = translated.machine.translated.results.claimed
    for _ in range(2):
        assert (translated.call("aten::neg", x) == -x).all()
    assert translated.machine.translated.results.claimed == before


def test_memory_that_an_operator_does_not_write_is_found(translated) -> None:  # type: ignore[no-untyped-def]
    """log_alpha of _ctc_loss ends, for each sequence, at the states that its target has."""
    log_probs = _tensor(50, 16, 20).log_softmax(2)
    args = (log_probs, torch.ones(16, 20, dtype=torch.int64), [50] * 16, [3] + [20] * 15)
    mode = BothMode(translated, 2)
    for _ in range(2):
        mode._compare("aten::_ctc_loss", args, {})
    assert not mode.off
    masks = unset_elements(translated, "aten::_ctc_loss", args, {})
    assert not masks[0].any() and masks[1][0, 1:, 7:].all() and not masks[1][1:, 1:, 1:].any()


def test_a_block_is_given_out_once(translated) -> None:  # type: ignore[no-untyped-def]
    """An address that is freed late, by what an earlier result was, must not be given to two blocks."""
    machine, cpu = translated.machine, translated.machine.translated
    cpu.results._known["test"] = [(6, (COUNT,), (1,), 4 * COUNT)]
    where = machine.heap.alloc(16)

    def allocate() -> int:
        machine.call(machine.trap("_posix_memalign"), where, 64, 4 * COUNT)
        return machine.memory.r64(where)

    def free(address: int) -> None:
        machine.call(machine.trap("_free"), address)

    cpu.results.offer("test")
    offered = cpu.results._offered[0].address
    free(offered)  # late, before it is taken
    assert allocate() == offered
    free(offered)
    second = allocate()
    assert second != offered
    free(second)
    assert cpu.results.claim((6, (COUNT,), (1,), 4 * COUNT), offered) is None
    cpu.reclaim()
    assert not cpu.results._offered and not machine.memory.lent
    machine.heap.free(where)


class _Lent:
    """Lends at the host's own addresses."""

    def __init__(self) -> None:
        self.lent: list[tuple[int, int]] = []

    def lend(self, address: int, size: int) -> int:
        self.lent.append((address, size))
        return address


def test_what_the_guest_keeps_stays_lent_until_it_is_freed() -> None:
    slots = (native.Offer * 2)()
    lent: Any = _Lent()
    memory = ResultMemory(lent, slots)
    geometry = (6, (8,), (1,), 32)

    def call() -> None:
        memory.offer("op")
        memory.claim(geometry, 1)
        memory.settle()

    call()
    assert not lent.lent
    memory.offer("op")
    slots[0].state = native.TAKEN
    memory.settle()  # the next calls cannot use this slot
    kept = memory._offered[0]
    assert lent.lent == [(kept.address, 32)] * 2 and slots[0].address == kept.address
    call()
    assert list(memory._offered) == [0] and not slots[1].address
    slots[0].state = native.TAKEN + 1  # as the helper marks it
    memory.settle()
    assert not memory._offered and not slots[0].address
