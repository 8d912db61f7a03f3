"""Integer data processing: arithmetic, logic, shifts, bit fields, multiplication, conditional select."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import insn, logical_immediate, ones, sign_extend
from ..emit import Emitter, Value

_ROR = 3
_SHIFTS = ("shl", "lshr", "ashr")


def size_of(f: SimpleNamespace) -> int:
    """Operand size in bits of the `sf` field."""
    return 64 if f.sf else 32


def shift_constant(e: Emitter, a: Value, kind: int, amount: int) -> Value:
    """LSL, LSR, ASR or ROR by a constant."""
    if amount == 0:
        return a
    count = e.const(a.ty, amount)
    if kind == _ROR:
        return e.call(a.ty, f"llvm.fshr.{a.ty}", a, a, count)
    return e.op(_SHIFTS[kind], a, count)


def add_with_flags(e: Emitter, a: Value, b: Value) -> Value:
    """Sum; sets the flags."""
    total = e.op("add", a, b)
    zero = e.const(a.ty, 0)
    carry = e.icmp("ult", total, a)
    overflow = e.op("and", e.op("xor", a, total), e.op("xor", b, total))
    e.set_flags(e.icmp("slt", total, zero), e.icmp("eq", total, zero), carry, e.icmp("slt", overflow, zero))
    return total


def subtract_with_flags(e: Emitter, a: Value, b: Value) -> Value:
    """Difference; sets the flags."""
    total = e.op("sub", a, b)
    zero = e.const(a.ty, 0)
    overflow = e.op("and", e.op("xor", a, b), e.op("xor", a, total))
    e.set_flags(e.icmp("slt", total, zero), e.icmp("eq", a, b), e.icmp("uge", a, b), e.icmp("slt", overflow, zero))
    e.compare = ("sub", a, b)
    return total


def logic_with_flags(e: Emitter, a: Value) -> Value:
    """Flags of a logical result: carry and overflow are cleared."""
    zero, false = e.const(a.ty, 0), Value("i1", "false")
    e.set_flags(e.icmp("slt", a, zero), e.icmp("eq", a, zero), false, false)
    return a


def _add_sub(e: Emitter, f: SimpleNamespace, a: Value, b: Value) -> Value:
    if f.s:
        return subtract_with_flags(e, a, b) if f.op else add_with_flags(e, a, b)
    return e.op("sub" if f.op else "add", a, b)


@insn("sf op s 100010 sh imm12:12 rn:5 rd:5")
def add_sub_immediate(e: Emitter, f: SimpleNamespace) -> None:
    a = e.x_sp(f.rn, size_of(f))
    result = _add_sub(e, f, a, e.const(a.ty, f.imm12 << 12 * f.sh))
    (e.set_x if f.s else e.set_x_sp)(f.rd, result)


@insn("sf op s 01011 shift:2 0 rm:5 imm6:6 rn:5 rd:5")
def add_sub_shifted(e: Emitter, f: SimpleNamespace) -> None:
    b = shift_constant(e, e.x(f.rm, size_of(f)), f.shift, f.imm6)
    e.set_x(f.rd, _add_sub(e, f, e.x(f.rn, size_of(f)), b))


def extended(e: Emitter, rm: int, option: int, amount: int, size: int) -> Value:
    """Extended register operand: UXTB..SXTX, then a left shift."""
    width = min(8 << (option & 3), size)
    a = e.cast("sext" if option & 4 else "zext", e.x(rm, width), f"i{size}")
    return shift_constant(e, a, 0, amount)


@insn("sf op s 01011001 rm:5 option:3 imm3:3 rn:5 rd:5")
def add_sub_extended(e: Emitter, f: SimpleNamespace) -> None:
    b = extended(e, f.rm, f.option, f.imm3, size_of(f))
    result = _add_sub(e, f, e.x_sp(f.rn, size_of(f)), b)
    (e.set_x if f.s else e.set_x_sp)(f.rd, result)


@insn("sf op s 11010000 rm:5 000000 rn:5 rd:5")
def add_sub_carry(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    wide = f"i{2 * size}"
    a, b = e.x(f.rn, size), e.x(f.rm, size)
    if f.op:
        b = e.op("xor", b, e.const(b.ty, -1))
    carry = e.flag("c")
    unsigned = e.op("add", e.cast("zext", a, wide), e.cast("zext", b, wide))
    unsigned = e.op("add", unsigned, e.cast("zext", carry, wide))
    result = e.cast("trunc", unsigned, f"i{size}")
    if f.s:
        zero = e.const(a.ty, 0)
        overflow = e.op("and", e.op("xor", a, result), e.op("xor", b, result))
        carried = e.icmp("ugt", unsigned, e.const(wide, ones(size)))
        e.set_flags(e.icmp("slt", result, zero), e.icmp("eq", result, zero), carried, e.icmp("slt", overflow, zero))
    e.set_x(f.rd, result)


@insn("sf opc:2 100100 n immr:6 imms:6 rn:5 rd:5")
def logical_immediate_op(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    mask = logical_immediate(f.n, f.imms, f.immr, size)
    if mask is None:
        raise NotImplementedError("reserved immediate")
    result = e.op(("and", "or", "xor", "and")[f.opc], e.x(f.rn, size), e.const(f"i{size}", mask))
    if f.opc == 3:
        e.set_x(f.rd, logic_with_flags(e, result))
    else:
        e.set_x_sp(f.rd, result)


@insn("sf opc:2 01010 shift:2 n rm:5 imm6:6 rn:5 rd:5")
def logical_shifted(e: Emitter, f: SimpleNamespace) -> None:
    b = shift_constant(e, e.x(f.rm, size_of(f)), f.shift, f.imm6)
    if f.n:
        b = e.op("xor", b, e.const(b.ty, -1))
    result = b if f.opc == 1 and f.rn == 31 else e.op(("and", "or", "xor", "and")[f.opc], e.x(f.rn, size_of(f)), b)
    e.set_x(f.rd, logic_with_flags(e, result) if f.opc == 3 else result)


@insn("sf opc:2 100101 hw:2 imm16:16 rd:5")
def move_wide(e: Emitter, f: SimpleNamespace) -> None:
    ty = f"i{size_of(f)}"
    value = f.imm16 << 16 * f.hw
    if f.opc == 3:
        kept = e.op("and", e.x(f.rd, size_of(f)), e.const(ty, ~(0xFFFF << 16 * f.hw)))
        e.set_x(f.rd, e.op("or", kept, e.const(ty, value)))
    elif f.opc == 1:
        raise NotImplementedError("reserved move")
    else:
        e.set_x(f.rd, e.const(ty, value if f.opc else ~value))


@insn("op immlo:2 10000 immhi:19 rd:5")
def pc_relative(e: Emitter, f: SimpleNamespace) -> None:
    offset = sign_extend(f.immhi << 2 | f.immlo, 21)
    base = (e.pc & ~0xFFF) + (offset << 12) if f.op else e.pc + offset
    e.set_x(f.rd, e.const("i64", base))


@insn("sf opc:2 100110 n immr:6 imms:6 rn:5 rd:5")
def bitfield(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    ty = f"i{size}"
    source = e.x(f.rn, size)
    if f.imms >= f.immr:  # extract
        width, low, place = f.imms - f.immr + 1, f.immr, 0
    else:  # insert
        width, low, place = f.imms + 1, 0, size - f.immr
    field = e.op("shl", source, e.const(ty, size - width - low)) if size - width - low else source
    field = shift_constant(e, field, 2 if f.opc == 0 else 1, size - width)
    field = shift_constant(e, field, 0, place)
    if f.opc == 1:
        mask = ones(width) << place
        old = e.op("and", e.x(f.rd, size), e.const(ty, ~mask))
        field = e.op("or", old, e.op("and", field, e.const(ty, mask)))
    elif f.opc == 3:
        raise NotImplementedError("reserved bit field")
    e.set_x(f.rd, field)


@insn("sf 00100111 n 0 rm:5 imms:6 rn:5 rd:5")
def extract(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    ty = f"i{size}"
    args = e.x(f.rn, size), e.x(f.rm, size), e.const(ty, f.imms)
    e.set_x(f.rd, e.call(ty, f"llvm.fshr.{ty}", *args))


@insn("sf op 111010010 rm:5 cond:4 immediate 0 rn:5 0 nzcv:4")
def conditional_compare(e: Emitter, f: SimpleNamespace) -> None:
    holds = e.condition(f.cond)
    size = size_of(f)
    a = e.x(f.rn, size)
    b = e.const(a.ty, f.rm) if f.immediate else e.x(f.rm, size)
    (subtract_with_flags if f.op else add_with_flags)(e, a, b)
    choose_flags(e, holds, f.nzcv)


def choose_flags(e: Emitter, holds: Value, otherwise: int) -> None:
    """Keep the flags just set where a condition held, else take constants."""
    chosen = []
    for name, shift in zip("nzcv", (3, 2, 1, 0), strict=True):
        constant = Value("i1", "true" if otherwise >> shift & 1 else "false")
        chosen.append(e.select(holds, e.flag(name), constant))
    e.set_flags(*chosen)


@insn("sf op 011010100 rm:5 cond:4 0 o2 rn:5 rd:5")
def conditional_select(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    other = e.x(f.rm, size)
    if f.op:
        other = e.op("xor", other, e.const(other.ty, -1))
    if f.o2:
        other = e.add(other, 1)
    e.set_x(f.rd, e.select(e.condition(f.cond), e.x(f.rn, size), other))


@insn("sf 0011011 op31:3 rm:5 o0 ra:5 rn:5 rd:5")
def multiply(e: Emitter, f: SimpleNamespace) -> None:
    kind = f.op31
    if kind in (2, 6):
        e.set_x(f.rd, _multiply_high(e, f, "sext" if kind == 2 else "zext"))
        return
    if kind not in (0, 1, 5):
        raise NotImplementedError("reserved multiplication")
    size = size_of(f)
    if kind == 0:
        product = e.op("mul", e.x(f.rn, size), e.x(f.rm, size))
    else:
        cast = "sext" if kind == 1 else "zext"
        product = e.op("mul", e.cast(cast, e.x(f.rn, 32), "i64"), e.cast(cast, e.x(f.rm, 32), "i64"))
    e.set_x(f.rd, e.op("sub" if f.o0 else "add", e.x(f.ra, size), product))


def _multiply_high(e: Emitter, f: SimpleNamespace, cast: str) -> Value:
    product = e.op("mul", e.cast(cast, e.x(f.rn), "i128"), e.cast(cast, e.x(f.rm), "i128"))
    return e.cast("trunc", e.op("lshr", product, e.const("i128", 64)), "i64")


@insn("sf 0011010110 rm:5 0010 kind:2 rn:5 rd:5")
def shift_variable(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    a = e.x(f.rn, size)
    count = e.op("and", e.x(f.rm, size), e.const(a.ty, size - 1))
    if f.kind == _ROR:
        e.set_x(f.rd, e.call(a.ty, f"llvm.fshr.{a.ty}", a, a, count))
    else:
        e.set_x(f.rd, e.op(_SHIFTS[f.kind], a, count))


@insn("sf 0011010110 rm:5 00001 signed rn:5 rd:5")
def divide(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    a, b = e.x(f.rn, size), e.x(f.rm, size)
    zero, one = e.const(a.ty, 0), e.const(a.ty, 1)
    by_zero = e.icmp("eq", b, zero)
    divisor = e.select(by_zero, one, b)
    if f.signed:  # the most negative number over -1 gives itself
        minus = e.icmp("eq", b, e.const(a.ty, -1))
        divisor = e.select(minus, one, divisor)
        quotient = e.op("sdiv", a, divisor)
        quotient = e.select(minus, e.op("sub", zero, a), quotient)
    else:
        quotient = e.op("udiv", a, divisor)
    e.set_x(f.rd, e.select(by_zero, zero, quotient))


@insn("sf 101101011000000 opcode:6 rn:5 rd:5")
def one_source(e: Emitter, f: SimpleNamespace) -> None:
    size = size_of(f)
    a = e.x(f.rn, size)
    ty = a.ty
    if f.opcode == 0:
        result = e.intrinsic("bitreverse", a)
    elif f.opcode == 1:
        parts = f"<{size // 16} x i16>"
        result = e.bits(e.intrinsic("bswap", e.bits(a, parts)), ty)
    elif f.opcode == 2 and f.sf:
        result = e.bits(e.intrinsic("bswap", e.bits(a, "<2 x i32>")), ty)
    elif f.opcode in (2, 3):
        result = e.intrinsic("bswap", a)
    elif f.opcode == 4:
        result = e.call(ty, f"llvm.ctlz.{ty}", a, Value("i1", "false"))
    elif f.opcode == 5:  # CLS: leading bits equal to the sign, the sign itself not counted
        sign = e.op("ashr", a, e.const(ty, size - 1))
        spread = e.op("xor", a, sign)
        result = e.add(e.call(ty, f"llvm.ctlz.{ty}", spread, Value("i1", "false")), -1)
    else:
        raise NotImplementedError("one-source operation")
    e.set_x(f.rd, result)
