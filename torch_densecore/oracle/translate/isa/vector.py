"""Vector arithmetic on two operands: one function per encoding class, one table per class from (U, opcode) to an operation."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import insn
from ..emit import Emitter, Value, element_of, int_type, lanes_of, with_element
from . import arith
from .lanes import Binary, compare, compare_fp, extreme, fp, fp_of, half_of, integer, intrinsic, mask, pairwise, set_narrow, width


def _fcmp_absolute(predicate: str) -> Binary:
    return lambda e, a, b: compare_fp(predicate)(e, arith.absolute(e, a), arith.absolute(e, b))


def _test(e: Emitter, a: Value, b: Value) -> Value:
    both = e.op("and", a, b)
    return mask(e, e.icmp("ne", both, e.const(a.ty, 0)), width(a))


def _shift_register(signed: bool, rounding: bool = False) -> Binary:
    """SSHL, USHL, SRSHL, URSHL: left by the signed lowest byte of each lane, right if it is negative."""

    def shift(e: Emitter, a: Value, b: Value) -> Value:
        bits = width(a)
        count = e.op("ashr", e.op("shl", b, e.const(b.ty, bits - 8)), e.const(b.ty, bits - 8))
        back = e.op("sub", e.const(b.ty, 0), count)
        limit, zero = e.const(b.ty, bits), e.const(a.ty, 0)
        last = e.const(b.ty, bits - 1)
        left = e.select(e.icmp("ult", count, limit), e.op("shl", a, e.op("and", count, last)), zero)
        if signed:
            right = e.op("ashr", a, e.intrinsic("umin", back, last))
        else:
            right = e.select(e.icmp("ult", back, limit), e.op("lshr", a, e.op("and", back, last)), zero)
        if rounding:  # add the last bit shifted out; beyond the width nothing is left
            previous = e.op("and", e.op("sub", back, e.const(b.ty, 1)), last)
            up = e.op("and", e.op("lshr", a, previous), e.const(a.ty, 1))
            right = e.select(e.icmp("ule", back, limit), e.op("add", right, up), zero)
        return e.select(e.icmp("slt", count, zero), right, left)

    return shift


def _halving(extend: str, opcode: str) -> Binary:
    def halve(e: Emitter, a: Value, b: Value) -> Value:
        wide = with_element(a.ty, f"i{2 * width(a)}")
        total = e.op(opcode, e.cast(extend, a, wide), e.cast(extend, b, wide))
        return e.cast("trunc", e.op("lshr", total, e.const(wide, 1)), a.ty)

    return halve


def _difference(signed: bool) -> Binary:
    def difference(e: Emitter, a: Value, b: Value) -> Value:
        kind = "s" if signed else "u"
        return e.op("sub", e.intrinsic(kind + "max", a, b), e.intrinsic(kind + "min", a, b))

    return difference


_INTEGER_SAME: dict[tuple[int, int], Binary] = {
    (0, 0x00): _halving("sext", "add"), (1, 0x00): _halving("zext", "add"),
    (0, 0x01): intrinsic("sadd.sat"), (1, 0x01): intrinsic("uadd.sat"),
    (0, 0x04): _halving("sext", "sub"), (1, 0x04): _halving("zext", "sub"),
    (0, 0x05): intrinsic("ssub.sat"), (1, 0x05): intrinsic("usub.sat"),
    (0, 0x06): compare("sgt"), (1, 0x06): compare("ugt"), (0, 0x07): compare("sge"), (1, 0x07): compare("uge"),
    (0, 0x08): _shift_register(True), (1, 0x08): _shift_register(False),
    (0, 0x0A): _shift_register(True, True), (1, 0x0A): _shift_register(False, True),
    (0, 0x0C): intrinsic("smax"), (1, 0x0C): intrinsic("umax"),
    (0, 0x0D): intrinsic("smin"), (1, 0x0D): intrinsic("umin"),
    (0, 0x0E): _difference(True), (1, 0x0E): _difference(False),
    (0, 0x10): integer("add"), (1, 0x10): integer("sub"), (0, 0x11): _test, (1, 0x11): compare("eq"), (0, 0x13): integer("mul"),
    (0, 0x14): pairwise(intrinsic("smax")), (1, 0x14): pairwise(intrinsic("umax")),
    (0, 0x15): pairwise(intrinsic("smin")), (1, 0x15): pairwise(intrinsic("umin")),
    (0, 0x17): pairwise(integer("add")),
}  # fmt: skip
_ACCUMULATE = {(0, 0x0F): _difference(True), (1, 0x0F): _difference(False)}  # SABA, UABA
# (U, high bit of size, opcode)
_FP_SAME: dict[tuple[int, int, int], Binary] = {
    (0, 0, 0x18): extreme(False, True), (0, 1, 0x18): extreme(True, True),
    (1, 0, 0x18): pairwise(extreme(False, True)), (1, 1, 0x18): pairwise(extreme(True, True)),
    (0, 0, 0x1A): fp("fadd"), (0, 1, 0x1A): fp("fsub"), (1, 0, 0x1A): pairwise(fp("fadd")),
    (1, 1, 0x1A): lambda e, a, b: arith.absolute(e, arith.binary(e, "fsub", a, b)),
    (1, 0, 0x1B): fp("fmul"), (0, 0, 0x1C): compare_fp("oeq"), (1, 0, 0x1C): compare_fp("oge"), (1, 1, 0x1C): compare_fp("ogt"),
    (1, 0, 0x1D): _fcmp_absolute("oge"), (1, 1, 0x1D): _fcmp_absolute("ogt"),
    (0, 0, 0x1E): extreme(False, False), (0, 1, 0x1E): extreme(True, False),
    (1, 0, 0x1E): pairwise(extreme(False, False)), (1, 1, 0x1E): pairwise(extreme(True, False)),
    (1, 0, 0x1F): fp("fdiv"),
}  # fmt: skip


def _logic(e: Emitter, f: SimpleNamespace) -> Value:
    """AND, BIC, ORR, ORN, EOR, BSL, BIT, BIF by U and size."""
    a, b = e.vec(f.rn, "i64", f.q), e.vec(f.rm, "i64", f.q)
    if f.u and f.size:
        d = e.vec(f.rd, "i64", f.q)
        if f.size == 1:
            mask, yes, no = d, a, b
        else:
            mask, yes, no = (b, a, d) if f.size == 2 else (b, d, a)
        return e.op("xor", no, e.op("and", e.op("xor", yes, no), mask))
    if f.u:
        return e.op("xor", a, b)
    if f.size & 1:
        b = e.op("xor", b, e.const(b.ty, -1))
    return e.op("or" if f.size & 2 else "and", a, b)


@insn("0 q u 01110 size:2 1 rm:5 opcode:5 1 rn:5 rd:5")
def three_same(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode == 3:
        e.set_vec(f.rd, _logic(e, f))
        return
    element = fp_of(f.size) if f.opcode >= 0x18 else f"i{8 << f.size}"
    if element in ("i64", "double") and not f.q:
        raise NotImplementedError("reserved arrangement")
    e.set_vec(f.rd, _same(e, f, e.vec(f.rn, element, f.q), e.vec(f.rm, element, f.q)))


@insn("0 q u 01110 high 10 rm:5 00 opcode:3 1 rn:5 rd:5")
def three_same_half(e: Emitter, f: SimpleNamespace) -> None:
    f.size, f.opcode = f.high << 1, f.opcode | 0x18
    e.set_vec(f.rd, _same(e, f, e.vec(f.rn, "half", f.q), e.vec(f.rm, "half", f.q)))


@insn("11001110000 rm:5 0 ra:5 rn:5 rd:5")
def exclusive_or_three(e: Emitter, f: SimpleNamespace) -> None:
    """EOR3."""
    e.set_v(f.rd, e.op("xor", e.op("xor", e.v(f.rn), e.v(f.rm)), e.v(f.ra)))


@insn("11001110001 rm:5 0 ra:5 rn:5 rd:5")
def bit_clear_exclusive_or(e: Emitter, f: SimpleNamespace) -> None:
    """BCAX."""
    cleared = e.op("and", e.v(f.rm), e.op("xor", e.v(f.ra), e.const("<2 x i64>", -1)))
    e.set_v(f.rd, e.op("xor", e.v(f.rn), cleared))


@insn("01 u 11110 size:2 1 rm:5 opcode:5 1 rn:5 rd:5")
def scalar_three_same(e: Emitter, f: SimpleNamespace) -> None:
    fp = f.opcode >= 0x18
    if f.opcode in (0x14, 0x15, 0x17, 0x0F) or (not fp and f.size != 3 and f.opcode not in (1, 5)):
        raise NotImplementedError("scalar operation")
    if fp and f.u and f.opcode in (0x18, 0x1E) or (f.u, f.size >> 1, f.opcode) == (1, 0, 0x1A):
        raise NotImplementedError("scalar operation")
    element = fp_of(f.size) if fp else f"i{8 << f.size}"
    a, b = e.scalar(f.rn, element), e.scalar(f.rm, element)
    one = "<1 x " + element + ">"
    result = _same(e, f, e.bits(a, one), e.bits(b, one))
    e.set_scalar(f.rd, e.extract(result, 0))


def _same(e: Emitter, f: SimpleNamespace, a: Value, b: Value) -> Value:
    if f.opcode < 0x18:
        key = (f.u, f.opcode)
        if key == (0, 0x12) or key == (1, 0x12):
            product, d = e.op("mul", a, b), e.vec(f.rd, element_of(a.ty), f.q)
            return e.op("sub" if f.u else "add", d, product)
        if key in _ACCUMULATE:
            return e.op("add", e.vec(f.rd, element_of(a.ty), f.q), _ACCUMULATE[key](e, a, b))
        if key not in _INTEGER_SAME:
            raise NotImplementedError("vector operation")
        return _INTEGER_SAME[key](e, a, b)
    key3 = (f.u, f.size >> 1, f.opcode)
    if key3 in ((0, 0, 0x19), (0, 1, 0x19)) and lanes_of(a.ty) > 1:
        return arith.fma(e, e.fneg(a) if f.size >> 1 else a, b, e.vec(f.rd, element_of(a.ty), f.q))
    if key3 not in _FP_SAME:
        raise NotImplementedError("half-precision widening multiplication, estimate or other rare operation")
    return _FP_SAME[key3](e, a, b)


@insn("0 q u 01110 size:2 1 rm:5 opcode:4 00 rn:5 rd:5")
def three_different(e: Emitter, f: SimpleNamespace) -> None:
    """Long, wide and narrowing arithmetic."""
    if f.size == 3:
        raise NotImplementedError("polynomial multiplication")
    narrow, wide = f"i{8 << f.size}", f"i{16 << f.size}"
    opcode, extend = f.opcode, "zext" if f.u else "sext"
    ty = int_type(16 << f.size, 4 >> f.size << 1)

    def long(number: int) -> Value:
        return e.cast(extend, half_of(e, number, narrow, f.q), ty)

    if opcode in (4, 6):  # ADDHN, SUBHN and their rounding forms
        total = e.op("add" if opcode == 4 else "sub", e.v(f.rn, ty), e.v(f.rm, ty))
        if f.u:
            total = e.op("add", total, e.const(ty, 1 << (8 << f.size) - 1))
        high = e.op("lshr", total, e.const(ty, 8 << f.size))
        set_narrow(e, f.rd, e.cast("trunc", high, with_element(ty, narrow)), f.q)
        return
    if opcode in (1, 3):  # ADDW, SUBW
        e.set_v(f.rd, e.op("add" if opcode == 1 else "sub", e.v(f.rn, ty), long(f.rm)))
        return
    a, b = long(f.rn), long(f.rm)
    if opcode in (0, 2):
        result = e.op("add" if opcode == 0 else "sub", a, b)
    elif opcode in (5, 7):
        kind = "u" if f.u else "s"
        result = e.op("sub", e.intrinsic(kind + "max", a, b), e.intrinsic(kind + "min", a, b))
        result = e.op("add", e.v(f.rd, ty), result) if opcode == 5 else result
    elif opcode in (8, 10, 12):
        product = e.op("mul", a, b)
        result = product if opcode == 12 else e.op("add" if opcode == 8 else "sub", e.v(f.rd, ty), product)
    else:
        raise NotImplementedError(f"long operation {wide}")
    e.set_v(f.rd, result)


def _indexed(e: Emitter, f: SimpleNamespace) -> tuple[str, Value]:
    """Element type and the selected element of a by-element operation; a floating-point one for opcodes 1, 5, 9."""
    fp = f.opcode in (1, 5, 9)
    if f.size == 3 and fp:
        element, number, lane = "double", f.m << 4 | f.rm, f.h
    elif f.size == 2:
        element, number, lane = "float" if fp else "i32", f.m << 4 | f.rm, f.h << 1 | f.l
    elif f.size == 1 - fp:
        element, number, lane = "half" if fp else "i16", f.rm, f.h << 2 | f.l << 1 | f.m
    else:
        raise NotImplementedError("reserved by-element operation")
    return element, e.extract(e.vec(number, element, 1), lane)


@insn("0 q u 01111 size:2 l m rm:4 opcode:4 h 0 rn:5 rd:5")
def by_element(e: Emitter, f: SimpleNamespace) -> None:
    element, factor = _indexed(e, f)
    bits = arith.SIZE.get(element) or int(element[1:])
    if f.opcode in (2, 6, 10):
        _long_by_element(e, f, element, factor, bits)
        return
    a = e.vec(f.rn, element, f.q)
    b = e.splat(factor, lanes_of(a.ty))
    key = (f.u, f.opcode)
    if key in ((0, 1), (0, 5)):
        result = arith.fma(e, e.fneg(a) if f.opcode == 5 else a, b, e.vec(f.rd, element, f.q))
    elif key == (0, 9):
        result = arith.binary(e, "fmul", a, b)
    elif key in ((1, 0), (1, 4)):
        result = e.op("add" if f.opcode == 0 else "sub", e.vec(f.rd, element, f.q), e.op("mul", a, b))
    elif key == (0, 8):
        result = e.op("mul", a, b)
    else:
        raise NotImplementedError("by-element operation")
    e.set_vec(f.rd, result)


def _long_by_element(e: Emitter, f: SimpleNamespace, element: str, factor: Value, bits: int) -> None:
    cast = "zext" if f.u else "sext"
    a = half_of(e, f.rn, element, f.q)
    wide = with_element(a.ty, f"i{2 * bits}")
    product = e.op("mul", e.cast(cast, a, wide), e.cast(cast, e.splat(factor, lanes_of(a.ty)), wide))
    if f.opcode != 10:
        product = e.op("add" if f.opcode == 2 else "sub", e.v(f.rd, wide), product)
    e.set_v(f.rd, product)


@insn("01 u 11111 size:2 l m rm:4 opcode:4 h 0 rn:5 rd:5")
def scalar_by_element(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode not in (1, 5, 9) or f.u:
        raise NotImplementedError("by-element operation")
    element, factor = _indexed(e, f)
    a = e.scalar(f.rn, element)
    if f.opcode == 9:
        result = arith.binary(e, "fmul", a, factor)
    else:
        result = arith.fma(e, e.fneg(a) if f.opcode == 5 else a, factor, e.scalar(f.rd, element))
    e.set_scalar(f.rd, result)
