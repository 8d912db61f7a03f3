"""Advanced SIMD data processing: one function per encoding class, one table per class from (U, opcode) to an operation."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ..bits import float_immediate, insn, ones
from ..emit import Emitter, Value, element_of, int_type, lanes_of, with_element
from . import arith

Binary = Callable[[Emitter, Value, Value], Value]
_FP = ("float", "double")


def _fp_of(size: int) -> str:
    return _FP[size & 1]


def _mask(e: Emitter, condition: Value, bits: int) -> Value:
    """All ones where a lane condition holds."""
    return e.cast("sext", condition, with_element(condition.ty, f"i{bits}"))


def _bits(a: Value) -> int:
    return arith.SIZE.get(element_of(a.ty)) or int(element_of(a.ty)[1:])


def _op(opcode: str) -> Binary:
    return lambda e, a, b: e.op(opcode, a, b)


def _intrinsic(name: str) -> Binary:
    return lambda e, a, b: e.intrinsic(name, a, b)


def _icmp(predicate: str) -> Binary:
    return lambda e, a, b: _mask(e, e.icmp(predicate, a, b), _bits(a))


def _fcmp(predicate: str) -> Binary:
    return lambda e, a, b: _mask(e, e.fcmp(predicate, a, b), _bits(a))


def _fcmp_absolute(predicate: str) -> Binary:
    return lambda e, a, b: _fcmp(predicate)(e, arith.absolute(e, a), arith.absolute(e, b))


def _test(e: Emitter, a: Value, b: Value) -> Value:
    both = e.op("and", a, b)
    return _mask(e, e.icmp("ne", both, e.const(a.ty, 0)), _bits(a))


def _shift_register(signed: bool, rounding: bool = False) -> Binary:
    """SSHL, USHL, SRSHL, URSHL: left by the signed lowest byte of each lane, right if it is negative."""

    def shift(e: Emitter, a: Value, b: Value) -> Value:
        bits = _bits(a)
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
        wide = with_element(a.ty, f"i{2 * _bits(a)}")
        total = e.op(opcode, e.cast(extend, a, wide), e.cast(extend, b, wide))
        return e.cast("trunc", e.op("lshr", total, e.const(wide, 1)), a.ty)

    return halve


def _difference(signed: bool) -> Binary:
    def difference(e: Emitter, a: Value, b: Value) -> Value:
        kind = "s" if signed else "u"
        return e.op("sub", e.intrinsic(kind + "max", a, b), e.intrinsic(kind + "min", a, b))

    return difference


def pairs(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """Even and odd elements of two concatenated vectors."""
    lanes = lanes_of(a.ty)
    return e.shuffle(a, b, range(0, 2 * lanes, 2)), e.shuffle(a, b, range(1, 2 * lanes, 2))


def _pairwise(operation: Binary) -> Binary:
    return lambda e, a, b: operation(e, *pairs(e, a, b))


def _fp(opcode: str) -> Binary:
    return lambda e, a, b: arith.binary(e, opcode, a, b)


def _extreme(smallest: bool, number: bool) -> Binary:
    function = arith.maximum_number if number else arith.maximum
    return lambda e, a, b: function(e, a, b, smallest)


_INTEGER_SAME: dict[tuple[int, int], Binary] = {
    (0, 0x00): _halving("sext", "add"), (1, 0x00): _halving("zext", "add"),
    (0, 0x01): _intrinsic("sadd.sat"), (1, 0x01): _intrinsic("uadd.sat"),
    (0, 0x04): _halving("sext", "sub"), (1, 0x04): _halving("zext", "sub"),
    (0, 0x05): _intrinsic("ssub.sat"), (1, 0x05): _intrinsic("usub.sat"),
    (0, 0x06): _icmp("sgt"), (1, 0x06): _icmp("ugt"), (0, 0x07): _icmp("sge"), (1, 0x07): _icmp("uge"),
    (0, 0x08): _shift_register(True), (1, 0x08): _shift_register(False),
    (0, 0x0A): _shift_register(True, True), (1, 0x0A): _shift_register(False, True),
    (0, 0x0C): _intrinsic("smax"), (1, 0x0C): _intrinsic("umax"),
    (0, 0x0D): _intrinsic("smin"), (1, 0x0D): _intrinsic("umin"),
    (0, 0x0E): _difference(True), (1, 0x0E): _difference(False),
    (0, 0x10): _op("add"), (1, 0x10): _op("sub"), (0, 0x11): _test, (1, 0x11): _icmp("eq"), (0, 0x13): _op("mul"),
    (0, 0x14): _pairwise(_intrinsic("smax")), (1, 0x14): _pairwise(_intrinsic("umax")),
    (0, 0x15): _pairwise(_intrinsic("smin")), (1, 0x15): _pairwise(_intrinsic("umin")),
    (0, 0x17): _pairwise(_op("add")),
}  # fmt: skip
_ACCUMULATE = {(0, 0x0F): _difference(True), (1, 0x0F): _difference(False)}  # SABA, UABA
# (U, high bit of size, opcode)
_FP_SAME: dict[tuple[int, int, int], Binary] = {
    (0, 0, 0x18): _extreme(False, True), (0, 1, 0x18): _extreme(True, True),
    (1, 0, 0x18): _pairwise(_extreme(False, True)), (1, 1, 0x18): _pairwise(_extreme(True, True)),
    (0, 0, 0x1A): _fp("fadd"), (0, 1, 0x1A): _fp("fsub"), (1, 0, 0x1A): _pairwise(_fp("fadd")),
    (1, 1, 0x1A): lambda e, a, b: arith.absolute(e, arith.binary(e, "fsub", a, b)),
    (1, 0, 0x1B): _fp("fmul"), (0, 0, 0x1C): _fcmp("oeq"), (1, 0, 0x1C): _fcmp("oge"), (1, 1, 0x1C): _fcmp("ogt"),
    (1, 0, 0x1D): _fcmp_absolute("oge"), (1, 1, 0x1D): _fcmp_absolute("ogt"),
    (0, 0, 0x1E): _extreme(False, False), (0, 1, 0x1E): _extreme(True, False),
    (1, 0, 0x1E): _pairwise(_extreme(False, False)), (1, 1, 0x1E): _pairwise(_extreme(True, False)),
    (1, 0, 0x1F): _fp("fdiv"),
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
    element = _fp_of(f.size) if f.opcode >= 0x18 else f"i{8 << f.size}"
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
    element = _fp_of(f.size) if fp else f"i{8 << f.size}"
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


def _wide_half(e: Emitter, number: int, element: str, upper: int) -> Value:
    """The lower or upper 64 bits of a register, as elements."""
    bits = arith.SIZE.get(element) or int(element[1:])
    return e.v_half(number, f"<{64 // bits} x {element}>", bool(upper))


@insn("0 q u 01110 size:2 1 rm:5 opcode:4 00 rn:5 rd:5")
def three_different(e: Emitter, f: SimpleNamespace) -> None:
    """Long, wide and narrowing arithmetic."""
    if f.size == 3:
        raise NotImplementedError("polynomial multiplication")
    narrow, wide = f"i{8 << f.size}", f"i{16 << f.size}"
    opcode, extend = f.opcode, "zext" if f.u else "sext"
    ty = int_type(16 << f.size, 4 >> f.size << 1)

    def long(number: int) -> Value:
        return e.cast(extend, _wide_half(e, number, narrow, f.q), ty)

    if opcode in (4, 6):  # ADDHN, SUBHN and their rounding forms
        total = e.op("add" if opcode == 4 else "sub", e.v(f.rn, ty), e.v(f.rm, ty))
        if f.u:
            total = e.op("add", total, e.const(ty, 1 << (8 << f.size) - 1))
        high = e.op("lshr", total, e.const(ty, 8 << f.size))
        _set_narrow(e, f.rd, e.cast("trunc", high, with_element(ty, narrow)), f.q)
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


def _set_narrow(e: Emitter, number: int, a: Value, upper: int) -> None:
    """Write 64 bits to the lower half, clearing the rest, or to the upper half, keeping the rest."""
    if upper:
        e.set_v(number, e.insert(e.v(number), e.bits(a, "i64"), 1))
    else:
        e.set_v_half(number, a)


_COMPARE_ZERO = {(0, 8): "sgt", (1, 8): "sge", (0, 9): "eq", (1, 9): "sle", (0, 10): "slt"}
_FP_COMPARE_ZERO = {(0, 12): "ogt", (1, 12): "oge", (0, 13): "oeq", (1, 13): "ole", (0, 14): "olt"}
# (U, high bit of size, opcode)
_ROUND = {
    (0, 0, 0x18): "n", (0, 0, 0x19): "m", (0, 1, 0x18): "p", (0, 1, 0x19): "z", (1, 0, 0x18): "a", (1, 0, 0x19): "x",
    (1, 1, 0x19): "i",
}  # fmt: skip
_TO_INTEGER = {(0, 0x1A): "n", (0, 0x1B): "m", (1, 0x1A): "p", (1, 0x1B): "z", (0, 0x1C): "a"}


@insn("0 q u 01110 size:2 10000 opcode:5 10 rn:5 rd:5")
def two_register(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode in (0, 1, 2, 5, 6, 0x12, 0x13, 0x14, 0x16, 0x17):
        _REARRANGE[f.opcode](e, f)
        return
    high = f.size >> 1
    fp = 0x0C <= f.opcode <= 0x0F or f.opcode >= 0x18
    element = _fp_of(f.size) if fp else f"i{8 << f.size}"
    if (element == "double" or element == "i64") and not f.q:
        raise NotImplementedError("reserved arrangement")
    if f.opcode == 0x1D and not high:
        integers = e.vec(f.rn, f"i{arith.SIZE[element]}", f.q)
        e.set_vec(f.rd, arith.from_integer(e, integers, with_element(integers.ty, element), not f.u))
        return
    e.set_vec(f.rd, _one(e, f, e.vec(f.rn, element, f.q)))


@insn("0 q u 01110 high 111100 opcode:5 10 rn:5 rd:5")
def two_register_half(e: Emitter, f: SimpleNamespace) -> None:
    f.size = f.high << 1
    if not (0x0C <= f.opcode <= 0x0F or f.opcode >= 0x18):
        raise NotImplementedError("reserved half-precision operation")
    if f.opcode == 0x1D and not f.high:
        integers = e.vec(f.rn, "i16", f.q)
        e.set_vec(f.rd, arith.from_integer(e, integers, with_element(integers.ty, "half"), not f.u))
        return
    e.set_vec(f.rd, _one(e, f, e.vec(f.rn, "half", f.q)))


@insn("01 u 11110 size:2 10000 opcode:5 10 rn:5 rd:5")
def scalar_two_register(e: Emitter, f: SimpleNamespace) -> None:
    high = f.size >> 1
    if f.opcode == 0x16 and f.u and f.size == 1:
        e.set_scalar(f.rd, arith.narrow_to_odd(e, e.scalar(f.rn, "double")))
        return
    fp = 0x0C <= f.opcode <= 0x0F or f.opcode >= 0x18
    if not fp and f.size != 3 or f.opcode < 8 or f.opcode in (0x12, 0x13, 0x14, 0x17):
        raise NotImplementedError("scalar operation")
    if f.opcode in (0x18, 0x19, 0x1F) or (f.opcode == 0x0F and high):
        raise NotImplementedError("scalar operation")
    element = _fp_of(f.size) if fp else f"i{8 << f.size}"
    if f.opcode == 0x1D and not high:
        ty = f"i{arith.SIZE[element]}"
        e.set_scalar(f.rd, arith.from_integer(e, e.scalar(f.rn, ty), element, not f.u))
        return
    result = _one(e, f, e.bits(e.scalar(f.rn, element), f"<1 x {element}>"))
    e.set_scalar(f.rd, e.extract(result, 0))


def _one(e: Emitter, f: SimpleNamespace, a: Value) -> Value:
    """Operations on each lane of one vector."""
    u, opcode, high = f.u, f.opcode, f.size >> 1
    if (u, opcode) in _COMPARE_ZERO:
        return _icmp(_COMPARE_ZERO[u, opcode])(e, a, e.const(a.ty, 0))
    if high and (u, opcode) in _FP_COMPARE_ZERO:
        return _fcmp(_FP_COMPARE_ZERO[u, opcode])(e, a, e.fp_bits(a.ty, 0))
    if opcode == 0x0B:
        zero = e.const(a.ty, 0)
        return e.op("sub", zero, a) if u else e.intrinsic("smax", a, e.op("sub", zero, a))
    if opcode == 0x0F and high:
        return e.fneg(a) if u else arith.absolute(e, a)
    if (u, high, opcode) in _ROUND:
        return arith.round_to_integral(e, a, _ROUND[u, high, opcode])
    if (high, opcode) in _TO_INTEGER:
        ty = with_element(a.ty, f"i{_bits(a)}")
        return arith.to_integer(e, a, ty, not u, _TO_INTEGER[high, opcode])
    if (u, high, opcode) == (1, 1, 0x1F):
        return arith.square_root(e, a)
    if (u, opcode) == (1, 4):
        return e.call(a.ty, f"llvm.ctlz.v{lanes_of(a.ty)}i{_bits(a)}", a, Value("i1", "false"))
    if (u, opcode) == (0, 4):
        spread = e.op("xor", a, e.op("ashr", a, e.const(a.ty, _bits(a) - 1)))
        count = e.call(a.ty, f"llvm.ctlz.v{lanes_of(a.ty)}i{_bits(a)}", spread, Value("i1", "false"))
        return e.op("sub", count, e.const(a.ty, 1))
    raise NotImplementedError("vector operation")


def _reverse(e: Emitter, f: SimpleNamespace) -> None:
    """REV64, REV32, REV16."""
    container = 64 >> ((f.opcode << 1) | f.u)
    group = container // (8 << f.size)
    if group < 2:
        raise NotImplementedError("reserved reversal")
    a = e.vec(f.rn, f"i{8 << f.size}", f.q)
    lanes = lanes_of(a.ty)
    e.set_vec(f.rd, e.shuffle(a, a, [lane // group * group + group - 1 - lane % group for lane in range(lanes)]))


def _pairwise_long(e: Emitter, f: SimpleNamespace) -> None:
    """SADDLP, UADDLP and, with opcode 6, the accumulating forms."""
    a = e.vec(f.rn, f"i{8 << f.size}", f.q)
    even, odd = pairs(e, a, a)
    half = lanes_of(a.ty) // 2
    wide = int_type(16 << f.size, half)
    cast = "zext" if f.u else "sext"
    even, odd = (e.cast(cast, e.shuffle(part, part, range(half)), wide) for part in (even, odd))
    total = e.op("add", even, odd)
    e.set_vec(f.rd, e.op("add", e.vec(f.rd, element_of(wide), f.q), total) if f.opcode == 6 else total)


def _count_or_not(e: Emitter, f: SimpleNamespace) -> None:
    """CNT, NOT, RBIT on bytes."""
    a = e.vec(f.rn, "i8", f.q)
    if not f.u:
        result = e.intrinsic("ctpop", a)
    elif f.size == 0:
        result = e.op("xor", a, e.const(a.ty, -1))
    else:
        result = e.intrinsic("bitreverse", a)
    e.set_vec(f.rd, result)


def _narrow(e: Emitter, f: SimpleNamespace) -> None:
    """XTN, SQXTN, UQXTN, SQXTUN."""
    bits = 8 << f.size
    ty = int_type(2 * bits, 64 // bits)
    a = e.v(f.rn, ty)
    if (f.u, f.opcode) != (0, 0x12):
        a = _saturate(e, a, bits, from_signed=not (f.u and f.opcode == 0x14), to_signed=not f.u)
    _set_narrow(e, f.rd, e.cast("trunc", a, with_element(ty, f"i{bits}")), f.q)


def _saturate(e: Emitter, a: Value, bits: int, from_signed: bool, to_signed: bool) -> Value:
    high = e.const(a.ty, ones(bits - 1) if to_signed else ones(bits))
    if not from_signed:
        return e.intrinsic("umin", a, high)
    low = e.const(a.ty, -(1 << bits - 1) if to_signed else 0)
    return e.intrinsic("smin", e.intrinsic("smax", a, low), high)


def _shift_long(e: Emitter, f: SimpleNamespace) -> None:
    """SHLL: by the element size."""
    bits = 8 << f.size
    a = _wide_half(e, f.rn, f"i{bits}", f.q)
    wide = e.cast("zext", a, with_element(a.ty, f"i{2 * bits}"))
    e.set_v(f.rd, e.op("shl", wide, e.const(wide.ty, bits)))


def _only_precision(f: SimpleNamespace) -> None:
    if f.size > 1:
        raise NotImplementedError("bfloat16 conversion")


def _narrow_fp(e: Emitter, f: SimpleNamespace) -> None:
    """FCVTN, FCVTXN."""
    _only_precision(f)
    wide, narrow = ("double", "float") if f.size & 1 else ("float", "half")
    a = e.v(f.rn, f"<{128 // arith.SIZE[wide]} x {wide}>")
    if f.u and wide == "float":
        raise NotImplementedError("reserved conversion")
    _set_narrow(e, f.rd, arith.narrow_to_odd(e, a) if f.u else arith.convert(e, a, narrow), f.q)


def _widen_fp(e: Emitter, f: SimpleNamespace) -> None:
    """FCVTL."""
    _only_precision(f)
    narrow, wide = ("float", "double") if f.size & 1 else ("half", "float")
    e.set_v(f.rd, arith.convert(e, _wide_half(e, f.rn, narrow, f.q), wide))


def _narrow_or_shift(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode == 0x13 and f.u:
        _shift_long(e, f)
    elif f.opcode == 0x12 or f.opcode == 0x14:
        _narrow(e, f)
    else:
        raise NotImplementedError("narrowing")


_REARRANGE: dict[int, Callable[[Emitter, SimpleNamespace], None]] = {
    0x00: _reverse, 0x01: _reverse, 0x02: _pairwise_long, 0x06: _pairwise_long, 0x05: _count_or_not, 0x12: _narrow_or_shift,
    0x13: _narrow_or_shift, 0x14: _narrow_or_shift, 0x16: _narrow_fp, 0x17: _widen_fp,
}  # fmt: skip


@insn("0 q u 01110 size:2 11000 opcode:5 10 rn:5 rd:5")
def across_lanes(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode in (0x0C, 0x0F):
        _fp_across(e, f)
        return
    a = e.vec(f.rn, f"i{8 << f.size}", f.q)
    if lanes_of(a.ty) < 4:
        raise NotImplementedError("reserved arrangement")
    kind = "u" if f.u else "s"
    names = {0x0A: kind + "max", 0x1A: kind + "min", 0x1B: "add"}
    if f.opcode == 0x03:
        a = e.cast("zext" if f.u else "sext", a, with_element(a.ty, f"i{16 << f.size}"))
        names[0x03] = "add"
    if f.opcode not in names:
        raise NotImplementedError("reduction")
    suffix = f"v{lanes_of(a.ty)}{element_of(a.ty)}"
    e.set_scalar(f.rd, e.call(element_of(a.ty), f"llvm.vector.reduce.{names[f.opcode]}.{suffix}", a))


def _fp_across(e: Emitter, f: SimpleNamespace) -> None:
    """FMAXV, FMINV, FMAXNMV, FMINNMV of four singles: pairs first, as the manual's tree."""
    if not f.u or not f.q or f.size & 1:
        raise NotImplementedError("half-precision reduction")
    operation = _extreme(bool(f.size >> 1), f.opcode == 0x0C)
    a = e.vec(f.rn, "float", 1)
    for width in (2, 1):
        a = operation(e, e.shuffle(a, a, range(width)), e.shuffle(a, a, range(width, 2 * width)))
    e.set_scalar(f.rd, e.extract(a, 0))


@insn("01 u 11110 size:2 11000 opcode:5 10 rn:5 rd:5")
def scalar_pairwise(e: Emitter, f: SimpleNamespace) -> None:
    if not f.u and f.opcode == 0x1B and f.size == 3:
        operation, element = _op("add"), "i64"
    elif f.u and f.opcode in (0x0C, 0x0D, 0x0F):
        element = _fp_of(f.size)
        operation = _fp("fadd") if f.opcode == 0x0D else _extreme(bool(f.size >> 1), f.opcode == 0x0C)
    else:
        raise NotImplementedError("pairwise reduction")
    lanes = 128 // (arith.SIZE.get(element) or 64)
    a = e.v(f.rn, f"<{lanes} x {element}>")
    first, second = e.shuffle(a, a, [0]), e.shuffle(a, a, [1])
    e.set_scalar(f.rd, e.extract(operation(e, first, second), 0))


def _lane_of(imm5: int) -> tuple[int, int]:
    """Element size in bits and lane index of an imm5 field."""
    if not imm5 & 0xF:
        raise NotImplementedError("reserved lane")
    scale = (imm5 & -imm5).bit_length() - 1
    return 8 << scale, imm5 >> scale + 1


@insn("0 q op 01110000 imm5:5 0 imm4:4 1 rn:5 rd:5")
def copy(e: Emitter, f: SimpleNamespace) -> None:
    """DUP, INS, SMOV, UMOV."""
    bits, lane = _lane_of(f.imm5)
    element = f"i{bits}"
    lanes = (64 << f.q) // bits
    if f.op:
        source = e.extract(e.vec(f.rn, element, 1), f.imm4 >> (bits // 8).bit_length() - 1)
        e.set_v(f.rd, e.insert(e.vec(f.rd, element, 1), source, lane))
    elif f.imm4 == 0:
        e.set_vec(f.rd, e.splat(e.extract(e.vec(f.rn, element, 1), lane), lanes))
    elif f.imm4 == 1:
        e.set_vec(f.rd, e.splat(e.x(f.rn, bits), lanes))
    elif f.imm4 == 3:
        e.set_v(f.rd, e.insert(e.vec(f.rd, element, 1), e.x(f.rn, bits), lane))
    elif f.imm4 in (5, 7):
        value = e.extract(e.vec(f.rn, element, 1), lane)
        e.set_x(f.rd, value if f.imm4 == 7 else e.cast("sext", value, "i64" if f.q else "i32"))
    else:
        raise NotImplementedError("copy")


@insn("01 0 11110000 imm5:5 000001 rn:5 rd:5")
def scalar_copy(e: Emitter, f: SimpleNamespace) -> None:
    bits, lane = _lane_of(f.imm5)
    e.set_scalar(f.rd, e.extract(e.vec(f.rn, f"i{bits}", 1), lane))


def expand_immediate(op: int, cmode: int, o2: int, imm8: int) -> int:
    """AdvSIMDExpandImm: the 64-bit constant of a modified immediate."""
    kind = cmode >> 1
    if kind < 4:
        return (imm8 << 8 * kind) * 0x1_0000_0001
    if kind < 6:
        return (imm8 << 8 * (kind & 1)) * 0x1_0001_0001_0001
    if kind == 6:
        return (imm8 << 16 | 0xFFFF if cmode & 1 else imm8 << 8 | 0xFF) * 0x1_0000_0001
    if not cmode & 1:
        if not op:
            return imm8 * 0x0101_0101_0101_0101
        return sum(0xFF << 8 * bit for bit in range(8) if imm8 >> bit & 1)
    if o2:
        return float_immediate(imm8, 16) * 0x1_0001_0001_0001
    return float_immediate(imm8, 64) if op else float_immediate(imm8, 32) * 0x1_0000_0001


@insn("0 q op 0111100000 abc:3 cmode:4 o2 1 defgh:5 rd:5")
def modified_immediate(e: Emitter, f: SimpleNamespace) -> None:
    """MOVI, MVNI, ORR, BIC, FMOV."""
    word = expand_immediate(f.op, f.cmode, f.o2, f.abc << 5 | f.defgh)
    bitwise = f.cmode < 12 and f.cmode & 1
    inverted = f.op and f.cmode < 14
    constant = e.const("<2 x i64>" if f.q else "<1 x i64>", ~word if inverted else word)
    if bitwise:
        constant = e.op("and" if f.op else "or", e.vec(f.rd, "i64", f.q), constant)
    e.set_vec(f.rd, constant)


def _immediate_shift(e: Emitter, f: SimpleNamespace, a: Value, bits: int) -> Value:
    """Shifts by an immediate that keep the element size."""
    code = f.immh << 3 | f.immb
    right, left = 2 * bits - code, code - bits
    if f.opcode in (0x00, 0x02, 0x04, 0x06):
        shifted = _shift_right(e, a, right, bool(f.u), rounding=f.opcode >= 4)
        if f.opcode & 2:
            shifted = e.op("add", e.vec(f.rd, element_of(a.ty), f.q), shifted)
        return shifted
    if f.opcode == 0x0A and not f.u:
        return e.op("shl", a, e.const(a.ty, left))
    if f.u and f.opcode in (0x08, 0x0A):  # SRI, SLI
        kept = ones(right) << bits - right if f.opcode == 0x08 else ones(left)
        old = e.op("and", e.vec(f.rd, element_of(a.ty), f.q), e.const(a.ty, kept))
        new = _shift_right(e, a, right, True, False) if f.opcode == 8 else e.op("shl", a, e.const(a.ty, left))
        return e.op("or", old, e.op("and", new, e.const(a.ty, ~kept)))
    if f.opcode in (0x1C, 0x1F) and bits >= 32:
        return _fixed_point(e, f, a, bits, right)
    raise NotImplementedError("shift")


def _fixed_point(e: Emitter, f: SimpleNamespace, a: Value, bits: int, fraction: int) -> Value:
    fp = with_element(a.ty, _FP[bits == 64])
    if f.opcode == 0x1C:
        return arith.from_integer(e, a, fp, not f.u, fraction)
    return arith.to_integer(e, e.bits(a, fp), a.ty, not f.u, "z", fraction)


def _shift_right(e: Emitter, a: Value, count: int, unsigned: bool, rounding: bool) -> Value:
    bits = _bits(a)
    opcode = "lshr" if unsigned else "ashr"
    if count < bits:
        result = e.op(opcode, a, e.const(a.ty, count))
    else:
        result = e.const(a.ty, 0) if unsigned else e.op("ashr", a, e.const(a.ty, bits - 1))
    if rounding:  # add the last bit shifted out
        lost = e.op("lshr", a, e.const(a.ty, count - 1))
        result = e.op("add", result, e.op("and", lost, e.const(a.ty, 1)))
    return result


@insn("0 q u 011110 immh:4 immb:3 opcode:5 1 rn:5 rd:5")
def shift_immediate(e: Emitter, f: SimpleNamespace) -> None:
    bits = 8 << f.immh.bit_length() - 1
    code = f.immh << 3 | f.immb
    if 0x10 <= f.opcode <= 0x13 and bits < 64:
        _shift_narrow(e, f, bits, 2 * bits - code)
    elif f.opcode == 0x14 and bits < 64:  # SSHLL, USHLL
        a = _wide_half(e, f.rn, f"i{bits}", f.q)
        wide = e.cast("zext" if f.u else "sext", a, with_element(a.ty, f"i{2 * bits}"))
        e.set_v(f.rd, e.op("shl", wide, e.const(wide.ty, code - bits)) if code != bits else wide)
    elif bits == 64 and not f.q:
        raise NotImplementedError("reserved arrangement")
    else:
        result = _immediate_shift(e, f, e.vec(f.rn, f"i{bits}", f.q), bits)
        e.set_vec(f.rd, result)


def _shift_narrow(e: Emitter, f: SimpleNamespace, bits: int, count: int) -> None:
    """SHRN, RSHRN and the saturating forms."""
    ty = int_type(2 * bits, 64 // bits)
    saturating = f.opcode >= 0x12 or f.u
    unsigned = f.opcode >= 0x12 and f.u
    a = e.v(f.rn, ty)
    if f.opcode & 1:
        if saturating:
            raise NotImplementedError("rounding saturating narrowing shift")
        a = _shift_right(e, a, count, True, True)
    else:
        a = _shift_right(e, a, count, not saturating or bool(unsigned), False)
    if saturating:
        a = _saturate(e, a, bits, from_signed=not unsigned, to_signed=not f.u)
    _set_narrow(e, f.rd, e.cast("trunc", a, with_element(ty, f"i{bits}")), f.q)


@insn("01 u 111110 immh:4 immb:3 opcode:5 1 rn:5 rd:5")
def scalar_shift_immediate(e: Emitter, f: SimpleNamespace) -> None:
    if not f.immh:
        raise NotImplementedError("reserved shift")
    bits = 8 << f.immh.bit_length() - 1
    if bits < 64 and f.opcode not in (0x1C, 0x1F) or 0x10 <= f.opcode <= 0x14:
        raise NotImplementedError("scalar shift")
    f.q = 0
    a = e.bits(e.scalar(f.rn, f"i{bits}"), f"<1 x i{bits}>")
    e.set_scalar(f.rd, e.extract(e.bits(_immediate_shift(e, f, a, bits), a.ty), 0))


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
    a = _wide_half(e, f.rn, element, f.q)
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


@insn("0 q 001110 size:2 0 rm:5 0 opcode:3 10 rn:5 rd:5")
def permute(e: Emitter, f: SimpleNamespace) -> None:
    """UZP, TRN, ZIP."""
    if f.size == 3 and not f.q:
        raise NotImplementedError("reserved arrangement")
    a, b = e.vec(f.rn, f"i{8 << f.size}", f.q), e.vec(f.rm, f"i{8 << f.size}", f.q)
    lanes, part = lanes_of(a.ty), f.opcode >> 2
    kind = f.opcode & 3
    if kind == 1:
        picks = [2 * lane + part for lane in range(lanes)]
    elif kind == 2:
        picks = [lane // 2 * 2 + part + lanes * (lane & 1) for lane in range(lanes)]
    elif kind == 3:
        picks = [part * lanes // 2 + lane // 2 + lanes * (lane & 1) for lane in range(lanes)]
    else:
        raise NotImplementedError("permutation")
    e.set_vec(f.rd, e.shuffle(a, b, picks))


@insn("0 q 101110000 rm:5 0 imm4:4 0 rn:5 rd:5")
def extract_bytes(e: Emitter, f: SimpleNamespace) -> None:
    lanes = 8 << f.q
    if f.imm4 >= lanes:
        raise NotImplementedError("reserved extraction")
    a, b = e.vec(f.rn, "i8", f.q), e.vec(f.rm, "i8", f.q)
    e.set_vec(f.rd, e.shuffle(a, b, range(f.imm4, f.imm4 + lanes)))


@insn("0 q 001110000 rm:5 0 len:2 op 00 rn:5 rd:5")
def table_lookup(e: Emitter, f: SimpleNamespace) -> None:
    """TBL, TBX: bytes picked by index; indices out of range give zero (TBL) or keep the byte (TBX)."""
    count = f.len + 1
    table = e.vec(f.rn, "i8", 1)
    if count > 1:
        parts = [e.vec((f.rn + index) % 32, "i8", 1) for index in range(count)]
        parts += [parts[0]] * (4 - count)
        low = e.shuffle(parts[0], parts[1], range(32))
        table = e.shuffle(low, e.shuffle(parts[2], parts[3], range(32)), range(64))
    picks = e.vec(f.rm, "i8", f.q)
    lanes = lanes_of(picks.ty)
    old = e.vec(f.rd, "i8", f.q) if f.op else e.const(picks.ty, 0)
    out = []
    for lane in range(lanes):
        index = e.extract(picks, lane)
        inside = e.op("and", index, e.const("i8", lanes_of(table.ty) - 1))
        byte = e.value("i8", f"extractelement {table}, {inside}")
        out.append(e.select(e.icmp("ult", index, e.const("i8", 16 * count)), byte, e.extract(old, lane)))
    e.set_vec(f.rd, e.vector(out))
