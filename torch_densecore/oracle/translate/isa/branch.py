"""Branches, calls, returns, hints and system registers."""

from __future__ import annotations

from types import SimpleNamespace

from .. import context as ctx
from ..bits import Branch, insn, sign_extend
from ..emit import Emitter


def _immediate(f: SimpleNamespace, pc: int) -> Branch:
    target = pc + sign_extend(f.imm26, 26) * 4
    return Branch((), True) if f.op else Branch((target,))


@insn("op 00101 imm26:26", _immediate)
def branch_immediate(e: Emitter, f: SimpleNamespace) -> None:
    target = e.pc + sign_extend(f.imm26, 26) * 4
    if f.op:
        pointer = e.stub(target)
        if pointer is not None:  # the veneer of an import: ADRP, LDR, BR through X16
            target = pointer
            e.set_x(16, e.const("i64", target))
        e.guest_call(e.const("i64", target), e.pc + 4)
    else:
        e.goto(target)


def _conditional(f: SimpleNamespace, pc: int) -> Branch:
    return Branch((pc + sign_extend(f.imm19, 19) * 4,), True)


@insn("01010100 imm19:19 0 cond:4", _conditional)
def branch_conditional(e: Emitter, f: SimpleNamespace) -> None:
    e.branch(e.condition(f.cond), e.pc + sign_extend(f.imm19, 19) * 4, e.pc + 4)


@insn("sf 011010 op imm19:19 rt:5", _conditional)
def compare_branch(e: Emitter, f: SimpleNamespace) -> None:
    a = e.x(f.rt, 64 if f.sf else 32)
    condition = e.icmp("ne" if f.op else "eq", a, e.const(a.ty, 0))
    e.branch(condition, e.pc + sign_extend(f.imm19, 19) * 4, e.pc + 4)


def _test(f: SimpleNamespace, pc: int) -> Branch:
    return Branch((pc + sign_extend(f.imm14, 14) * 4,), True)


@insn("b5 011011 op b40:5 imm14:14 rt:5", _test)
def test_branch(e: Emitter, f: SimpleNamespace) -> None:
    bit = e.op("and", e.x(f.rt), e.const("i64", 1 << (f.b5 << 5 | f.b40)))
    condition = e.icmp("ne" if f.op else "eq", bit, e.const("i64", 0))
    e.branch(condition, e.pc + sign_extend(f.imm14, 14) * 4, e.pc + 4)


def _register(f: SimpleNamespace, pc: int) -> Branch:
    return Branch((), f.opc == 1)


@insn("110101100 opc:2 11111000000 rn:5 00000", _register)
def branch_register(e: Emitter, f: SimpleNamespace) -> None:
    target = e.x(f.rn)
    if f.opc == 0:
        e.tail(target)
    elif f.opc == 1:
        e.guest_call(target, e.pc + 4)
    elif f.opc == 2:
        e.leave(target)
    else:
        raise NotImplementedError("branch to register")


def _stop(f: SimpleNamespace, pc: int) -> Branch:
    return Branch()


@insn("11010100001 imm16:16 00000", _stop)
def breakpoint_instruction(e: Emitter, f: SimpleNamespace) -> None:
    """BRK: the compiler's trap for code that can't be reached."""
    e.stop(e.pc)


@insn("11010101000000110010 crm:4 op2:3 11111")
def hint(e: Emitter, f: SimpleNamespace) -> None:
    """NOP, YIELD, BTI, PACIASP and the like: nothing that a single thread sees."""


@insn("11010101000000110011 crm:4 opc:3 11111")
def barrier(e: Emitter, f: SimpleNamespace) -> None:
    """DMB, DSB, ISB, CLREX: the guest has one thread."""


@insn("110101010011101101000100000 rt:5")
def read_fpcr(e: Emitter, f: SimpleNamespace) -> None:
    value = e.value("i32", f"load i32, ptr {e.context_pointer(ctx.FPCR)}")
    e.set_x(f.rt, value)


@insn("110101010001101101000010000 rt:5")
def write_flags(e: Emitter, f: SimpleNamespace) -> None:
    """MSR NZCV."""
    word = e.cast("trunc", e.op("lshr", e.x(f.rt), e.const("i64", 28)), "i4")
    e.set_flags(*(e.cast("trunc", e.op("lshr", word, e.const("i4", shift)), "i1") for shift in (3, 2, 1, 0)))


@insn("110101010011101101000010000 rt:5")
def read_flags(e: Emitter, f: SimpleNamespace) -> None:
    """MRS NZCV."""
    word = e.const("i64", 0)
    for name, position in zip("nzcv", (31, 30, 29, 28), strict=True):
        bit = e.op("shl", e.cast("zext", e.flag(name), "i64"), e.const("i64", position))
        word = e.op("or", word, bit)
    e.set_x(f.rt, word)
