"""The translator's parts that need neither the emulator nor the wheel."""

from __future__ import annotations

import ctypes

import pytest

from torch_densecore.oracle.memory import GuestFault
from torch_densecore.oracle.translate import unit
from torch_densecore.oracle.translate.arena import arena
from torch_densecore.oracle.translate.bits import Table, float_immediate, logical_immediate, parse, sign_extend
from torch_densecore.oracle.translate.functions import decode_uleb
from torch_densecore.oracle.translate.link import LinkError, compile_text, target_machine
from torch_densecore.oracle.translate.registers import Node, solve

RET, ADD, CBZ_BACK, BL = 0xD65F03C0, 0x91000400, 0xB5FFFFE1, 0x94000010  # cbnz x1, -4


def test_pattern_needs_32_bits() -> None:
    assert parse("sf 0000000 imm:24") == (0x7F000000, 0, (("sf", 31, 1), ("imm", 0, 0xFFFFFF)))
    with pytest.raises(ValueError, match="31 bits"):
        parse("0000000 imm:24")


def test_rows_are_tried_in_order() -> None:
    table = Table()
    table.insn("1 a:31")(lambda e, f: None)
    table.insn("a:32")(lambda e, f: None)
    assert table.find(0x80000000) is table.rows[0]
    assert table.find(0x7FFFFFFF) is table.rows[1]
    assert table.rows[0].extract(0x80000005).a == 5


@pytest.mark.parametrize(
    ("n", "imms", "immr", "size", "mask"),
    [(0, 0b000000, 0, 32, 1), (0, 0b111100, 0, 64, 0x5555555555555555), (1, 31, 0, 64, 0xFFFFFFFF),
     (0, 0b000111, 4, 32, 0xF000000F), (1, 63, 0, 64, None), (1, 3, 0, 32, None)],
)  # fmt: skip
def test_logical_immediate(n: int, imms: int, immr: int, size: int, mask: int | None) -> None:
    assert logical_immediate(n, imms, immr, size) == mask


def test_float_immediate() -> None:
    assert float_immediate(0x70, 32) == 0x3F800000  # 1.0
    assert float_immediate(0x70, 64) == 0x3FF << 52
    assert float_immediate(0x80, 16) == 0xC000  # -2.0
    assert float_immediate(0x3F, 32) == 0x41F80000  # 31.0


def test_sign_extend() -> None:
    assert [sign_extend(v, 3) for v in range(8)] == [0, 1, 2, 3, -4, -3, -2, -1]


def _fetch(words: list[int]):  # type: ignore[no-untyped-def]
    return lambda pc: words[pc // 4]


def test_blocks_of_a_loop() -> None:
    assert unit.discover(0, 0, 16, _fetch([ADD, ADD, CBZ_BACK, RET])) == {0: 4, 4: 12, 12: 16}


def test_blocks_stay_in_the_function() -> None:
    assert unit.discover(0, 0, 8, _fetch([ADD, ADD, RET])) == {0: 8}


def test_a_unit_is_bounded() -> None:
    blocks = unit.discover(0, 0, 4000, lambda pc: ADD, limit=10)
    assert blocks == {0: 40}


def _translate(words: list[int], starts: tuple[int, ...] = (0,)) -> unit.Unit:
    """The unit at 0; `starts` are the addresses where functions begin."""
    ends = {low: high for low, high in zip(starts, (*starts[1:], 4 * len(words)), strict=True)}

    def extent(pc: int) -> tuple[int, int]:
        if not 0 <= pc < 4 * len(words):
            raise GuestFault(hex(pc))
        low = max(start for start in starts if start <= pc)
        return low, ends[low]

    return unit.Translator(unit.Code(_fetch(words), extent), True, optimise=True).translate(0)


def test_a_small_function_called_in_a_loop_is_inlined() -> None:
    loop = [0x94000003, 0xB5FFFFE1, RET]  # bl +12; cbnz x1, -4; ret
    inlined = _translate([*loop, ADD, RET], (0, 12))
    assert inlined.direct == [] and inlined.instructions == 5
    calling = _translate([*loop, 0x94000010, RET], (0, 12))  # bl +64
    assert calling.direct == [12 + 64] and calling.instructions == 5
    busy = _translate([*loop, *[0x94000010] * 5, RET], (0, 12))
    assert busy.direct == [12] and busy.instructions == 3
    jumping = _translate([*loop, 0xD61F0000, RET], (0, 12))  # br x0
    assert jumping.direct == [12]
    once = _translate([0x94000002, RET, ADD, RET], (0, 8))
    assert once.direct == [8]


def test_an_indirect_call_in_a_loop_is_inlined_where_it_went() -> None:
    words = [0xD63F0040, 0xB5FFFFE1, RET, ADD, RET]  # blr x2; cbnz x1, -4; ret
    extent = {0: (0, 12), 12: (12, 20)}
    code = unit.Code(_fetch(words), lambda pc: extent[0 if pc < 12 else 12], seen=lambda pc: 12 if pc == 0 else None)
    inlined = unit.Translator(code, True, optimise=True).translate(0)
    assert inlined.instructions == 5
    plain = unit.Translator(code, True, optimise=False).translate(0)
    assert plain.instructions == 3


def test_unknown_instruction_is_left_to_the_emulator() -> None:
    translated = _translate([ADD, 0x00000000, RET])
    assert translated.emulated == [(4, 0, "not in the table")]
    assert translated.instructions == 3


def test_calls_are_listed() -> None:
    translated = _translate([BL, RET])
    assert translated.direct == [0x40]


def test_only_changed_registers_are_stored_and_needed_ones_loaded() -> None:
    first, second = Node(label="a"), Node()
    first.reads(1)
    first.writes(2)
    first.synchronised = True
    first.followers.append(second)
    second.reads(8)
    second.writes(4)
    second.synchronised = True
    solve([first, second])
    assert (first.needed, first.dirty) == (1, 2)
    assert (second.needed, second.dirty) == (8, 4)


def test_register_changed_on_one_path_is_loaded_at_the_start() -> None:
    head, left, join = Node("a", successors=["b", "c"]), Node("b", successors=["c"]), Node("c", synchronised=True)
    left.writes(1)
    solve([head, left, join])
    assert join.dirty == 1
    assert head.needed == 1 and left.needed == 0


def test_function_starts_are_differences() -> None:
    assert decode_uleb(bytes([0x05, 0x80, 0x01, 0xE5, 0x8E, 0x26])).tolist() == [5, 128, 624485]
    assert decode_uleb(b"").tolist() == []


def test_external_symbols_are_refused() -> None:
    with pytest.raises(LinkError, match="somewhere"):
        compile_text("declare i64 @somewhere()\ndefine i64 @f() {\n  %a = call i64 @somewhere()\n  ret i64 %a\n}\n")


def test_a_host_without_fma_calls_a_correct_one() -> None:
    text = (
        "declare double @llvm.fma.f64(double, double, double)\ndefine double @f(double %a, double %b, double %c) {\n"
        "  %r = call double @llvm.fma.f64(double %a, double %b, double %c)\n  ret double %r\n}\n"
    )
    blob = compile_text(text, machine=target_machine(2, "x86-64", "+sse2"))
    assert [name for _, name in blob.externals] == ["fma"]
    function = ctypes.CFUNCTYPE(*[ctypes.c_double] * 4)(arena().place(blob))
    assert function(1 + 2**-30, 1 + 2**-30, -1.0) == 2**-29 + 2**-60
