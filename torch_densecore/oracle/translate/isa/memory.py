"""Loads and stores of integer and scalar vector registers, pairs, exclusives and atomics (one guest thread)."""

from __future__ import annotations

from types import SimpleNamespace

from .. import context as ctx
from ..bits import insn, sign_extend
from ..emit import Emitter, Value
from .integer import extended


def _transfer(e: Emitter, f: SimpleNamespace, address: Value) -> None:
    """The access itself, for every addressing mode: `size`, `v` and `opc` as in the Arm manual."""
    if f.v:
        bits = 8 << (f.size | (f.opc & 2) << 1)
        ty = "<2 x i64>" if bits == 128 else f"i{bits}"
        if f.opc & 1:
            value = e.load(address, ty)
            e.set_v(f.rt, value) if bits == 128 else e.set_scalar(f.rt, value)
        else:
            e.store(address, e.v(f.rt) if bits == 128 else e.scalar(f.rt, ty))
        return
    bits = 8 << f.size
    if f.opc == 0:
        e.store(address, e.x(f.rt, bits))
    elif f.opc == 1:
        e.set_x(f.rt, e.load(address, f"i{bits}"))
    elif f.size < 3:
        e.set_x(f.rt, e.cast("sext", e.load(address, f"i{bits}"), "i32" if f.opc == 3 else "i64"))
    elif f.opc == 3:
        raise NotImplementedError("reserved load")  # size 3, opc 2 is a prefetch


def _scale(f: SimpleNamespace) -> int:
    return f.size | (f.opc & 2) << 1 if f.v else f.size


@insn("size:2 111 v 01 opc:2 imm12:12 rn:5 rt:5")
def load_store_unsigned(e: Emitter, f: SimpleNamespace) -> None:
    _transfer(e, f, e.add(e.x_sp(f.rn), f.imm12 << _scale(f)))


@insn("size:2 111 v 00 opc:2 0 imm9:9 mode:2 rn:5 rt:5")
def load_store_indexed(e: Emitter, f: SimpleNamespace) -> None:
    """Unscaled (mode 0), post-indexed (1), unprivileged (2), pre-indexed (3)."""
    offset, base = sign_extend(f.imm9, 9), e.x_sp(f.rn)
    moved = e.add(base, offset)
    _transfer(e, f, base if f.mode == 1 else moved)
    if f.mode & 1:
        e.set_x_sp(f.rn, moved)


@insn("size:2 111 v 00 opc:2 1 rm:5 option:3 s 10 rn:5 rt:5")
def load_store_register(e: Emitter, f: SimpleNamespace) -> None:
    offset = extended(e, f.rm, f.option, _scale(f) if f.s else 0, 64)
    _transfer(e, f, e.op("add", e.x_sp(f.rn), offset))


@insn("opc:2 011 v 00 imm19:19 rt:5")
def load_literal(e: Emitter, f: SimpleNamespace) -> None:
    address = e.const("i64", e.pc + sign_extend(f.imm19, 19) * 4)
    if f.v:
        ty = ("i32", "i64", "<2 x i64>")[f.opc]
        value = e.load(address, ty)
        e.set_v(f.rt, value) if f.opc == 2 else e.set_scalar(f.rt, value)
    elif f.opc < 2:
        e.set_x(f.rt, e.load(address, ("i32", "i64")[f.opc]))
    elif f.opc == 2:
        e.set_x(f.rt, e.cast("sext", e.load(address, "i32"), "i64"))


@insn("opc:2 101 v 0 mode:2 load imm7:7 rt2:5 rn:5 rt:5")
def load_store_pair(e: Emitter, f: SimpleNamespace) -> None:
    """Without allocation hint (mode 0), post-indexed (1), offset (2), pre-indexed (3)."""
    if f.opc == 3 or (f.opc == 1 and not f.v and not f.load):
        raise NotImplementedError("reserved pair")
    size = 4 << f.opc if f.v else 8 if f.opc == 2 else 4
    base = e.x_sp(f.rn)
    moved = e.add(base, sign_extend(f.imm7, 7) * size)
    first = base if f.mode == 1 else moved
    second = e.add(first, size)
    ty = "<2 x i64>" if size == 16 else f"i{8 * size}"
    if f.load:
        values = e.load(first, ty), e.load(second, ty)
        for number, value in zip((f.rt, f.rt2), values, strict=True):
            _set(e, f, number, value)
    else:
        values = _get(e, f, f.rt, ty), _get(e, f, f.rt2, ty)
        e.store(first, values[0])
        e.store(second, values[1])
    if f.mode & 1:
        e.set_x_sp(f.rn, moved)


def _get(e: Emitter, f: SimpleNamespace, number: int, ty: str) -> Value:
    if f.v:
        return e.v(number) if ty[0] == "<" else e.scalar(number, ty)
    return e.x(number, int(ty[1:]))


def _set(e: Emitter, f: SimpleNamespace, number: int, value: Value) -> None:
    if f.v:
        e.set_v(number, value) if value.ty[0] == "<" else e.set_scalar(number, value)
    else:
        e.set_x(number, e.cast("sext", value, "i64") if f.opc == 1 else value)


@insn("size:2 0010001 load 0 rs:5 o0 rt2:5 rn:5 rt:5")
def load_store_ordered(e: Emitter, f: SimpleNamespace) -> None:
    """LDAR, STLR."""
    address, bits = e.x_sp(f.rn), 8 << f.size
    if f.load:
        e.set_x(f.rt, e.load(address, f"i{bits}"))
    else:
        e.store(address, e.x(f.rt, bits))


@insn("size:2 0010000 load 0 rs:5 o0 rt2:5 rn:5 rt:5")
def exclusive(e: Emitter, f: SimpleNamespace) -> None:
    """LDXR and STXR: the store succeeds if the monitor still has this address and memory this value."""
    address, bits = e.x_sp(f.rn), 8 << f.size
    monitor, held = e.context_pointer(ctx.EXCLUSIVE), e.context_pointer(ctx.EXCLUSIVE + 8)
    ty = f"i{bits}"
    if f.load:
        value = e.load(address, ty)
        wide = e.cast("zext", value, "i64")
        e.line(f"  store {address}, ptr {monitor}")
        e.line(f"  store {wide}, ptr {held}")
        e.set_x(f.rt, value)
        return
    current = e.load(address, ty)
    same_address = e.icmp("eq", e.value("i64", f"load i64, ptr {monitor}"), address)
    same_value = e.icmp("eq", e.value("i64", f"load i64, ptr {held}"), e.cast("zext", current, "i64"))
    success = e.op("and", same_address, same_value)
    e.store(address, e.select(success, e.x(f.rt, bits), current))
    e.line(f"  store i64 0, ptr {monitor}")
    e.set_x(f.rs, e.cast("zext", e.op("xor", success, Value("i1", "true")), "i32"))


@insn("size:2 0010001 a 1 rs:5 r 11111 rn:5 rt:5")
def compare_and_swap(e: Emitter, f: SimpleNamespace) -> None:
    """CAS and its ordered and narrow forms."""
    address, bits = e.x_sp(f.rn), 8 << f.size
    current, expected = e.load(address, f"i{bits}"), e.x(f.rs, bits)
    e.store(address, e.select(e.icmp("eq", current, expected), e.x(f.rt, bits), current))
    e.set_x(f.rs, current)


@insn("size:2 111000 a r 1 rs:5 o3 opc:3 00 rn:5 rt:5")
def atomic(e: Emitter, f: SimpleNamespace) -> None:
    """LDADD, LDCLR, LDEOR, LDSET, LD[SU]MAX, LD[SU]MIN, SWP, LDAPR."""
    address, bits = e.x_sp(f.rn), 8 << f.size
    old = e.load(address, f"i{bits}")
    if f.o3 and f.opc == 4:
        e.set_x(f.rt, old)
        return
    operand = e.x(f.rs, bits)
    if f.o3:
        if f.opc:
            raise NotImplementedError("atomic")
        new = operand
    elif f.opc == 1:
        new = e.op("and", old, e.op("xor", operand, e.const(operand.ty, -1)))
    elif f.opc < 4:
        new = e.op(("add", "", "xor", "or")[f.opc], old, operand)
    else:
        new = e.intrinsic(("smax", "smin", "umax", "umin")[f.opc - 4], old, operand)
    e.store(address, new)
    e.set_x(f.rt, old)
