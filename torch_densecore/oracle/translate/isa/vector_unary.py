"""Vector operations on one operand, and reductions across the lanes of one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from ..bits import insn
from ..emit import Emitter, Value, element_of, int_type, lanes_of, with_element
from . import arith
from .lanes import compare, compare_fp, extreme, fp, fp_of, half_of, integer, pairs, saturate, set_narrow, width

_COMPARE_ZERO = {(0, 8): "sgt", (1, 8): "sge", (0, 9): "eq", (1, 9): "sle", (0, 10): "slt"}
_FP_COMPARE_ZERO = {(0, 12): "ogt", (1, 12): "oge", (0, 13): "oeq", (1, 13): "ole", (0, 14): "olt"}
# (U, high bit of size, opcode)
_ROUND = {
    (0, 0, 0x18): "n", (0, 0, 0x19): "m", (0, 1, 0x18): "p", (0, 1, 0x19): "z", (1, 0, 0x18): "a", (1, 0, 0x19): "x",
    (1, 1, 0x19): "i",
}  # fmt: skip
_FRINTN, _FCVTZS = (0, 0, 0x18), (0, 1, 0x1B)
_TO_INTEGER = {(0, 0x1A): "n", (0, 0x1B): "m", (1, 0x1A): "p", (1, 0x1B): "z", (0, 0x1C): "a"}


@insn("0 q u 01110 size:2 10000 opcode:5 10 rn:5 rd:5")
def two_register(e: Emitter, f: SimpleNamespace) -> None:
    if f.opcode in (0, 1, 2, 5, 6, 0x12, 0x13, 0x14, 0x16, 0x17):
        _REARRANGE[f.opcode](e, f)
        return
    high = f.size >> 1
    fp = 0x0C <= f.opcode <= 0x0F or f.opcode >= 0x18
    element = fp_of(f.size) if fp else f"i{8 << f.size}"
    if (element == "double" or element == "i64") and not f.q:
        raise NotImplementedError("reserved arrangement")
    if f.opcode == 0x1D and not high:
        integers = e.vec(f.rn, f"i{arith.SIZE[element]}", f.q)
        e.set_vec(f.rd, arith.from_integer(e, integers, with_element(integers.ty, element), not f.u))
        return
    kind, source = (f.u, high, f.opcode), f"v{f.rn}"
    if kind == _FCVTZS and element == "float" and f.q and source in e.rounded:  # one instruction of the host for both
        e.set_vec(f.rd, arith.to_integer(e, e.rounded[source], "<4 x i32>", signed=True, mode="n"))
        return
    a = e.vec(f.rn, element, f.q)
    e.set_vec(f.rd, _one(e, f, a))
    if kind == _FRINTN and a.ty == "<4 x float>":
        e.rounded[f"v{f.rd}"] = a


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
    element = fp_of(f.size) if fp else f"i{8 << f.size}"
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
        return compare(_COMPARE_ZERO[u, opcode])(e, a, e.const(a.ty, 0))
    if high and (u, opcode) in _FP_COMPARE_ZERO:
        return compare_fp(_FP_COMPARE_ZERO[u, opcode])(e, a, e.fp_bits(a.ty, 0))
    if opcode == 0x0B:
        zero = e.const(a.ty, 0)
        return e.op("sub", zero, a) if u else e.intrinsic("smax", a, e.op("sub", zero, a))
    if opcode == 0x0F and high:
        return e.fneg(a) if u else arith.absolute(e, a)
    if (u, high, opcode) in _ROUND:
        return arith.round_to_integral(e, a, _ROUND[u, high, opcode])
    if (high, opcode) in _TO_INTEGER:
        ty = with_element(a.ty, f"i{width(a)}")
        return arith.to_integer(e, a, ty, not u, _TO_INTEGER[high, opcode])
    if (u, high, opcode) == (1, 1, 0x1F):
        return arith.square_root(e, a)
    if (u, opcode) == (1, 4):
        return e.call(a.ty, f"llvm.ctlz.v{lanes_of(a.ty)}i{width(a)}", a, Value("i1", "false"))
    if (u, opcode) == (0, 4):
        spread = e.op("xor", a, e.op("ashr", a, e.const(a.ty, width(a) - 1)))
        count = e.call(a.ty, f"llvm.ctlz.v{lanes_of(a.ty)}i{width(a)}", spread, Value("i1", "false"))
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
        a = saturate(e, a, bits, from_signed=not (f.u and f.opcode == 0x14), to_signed=not f.u)
    set_narrow(e, f.rd, e.cast("trunc", a, with_element(ty, f"i{bits}")), f.q)


def _shift_long(e: Emitter, f: SimpleNamespace) -> None:
    """SHLL: by the element size."""
    bits = 8 << f.size
    a = half_of(e, f.rn, f"i{bits}", f.q)
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
    set_narrow(e, f.rd, arith.narrow_to_odd(e, a) if f.u else arith.convert(e, a, narrow), f.q)


def _widen_fp(e: Emitter, f: SimpleNamespace) -> None:
    """FCVTL."""
    _only_precision(f)
    narrow, wide = ("float", "double") if f.size & 1 else ("half", "float")
    e.set_v(f.rd, arith.convert(e, half_of(e, f.rn, narrow, f.q), wide))


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
    operation = extreme(bool(f.size >> 1), f.opcode == 0x0C)
    a = e.vec(f.rn, "float", 1)
    for half in (2, 1):
        a = operation(e, e.shuffle(a, a, range(half)), e.shuffle(a, a, range(half, 2 * half)))
    e.set_scalar(f.rd, e.extract(a, 0))


@insn("01 u 11110 size:2 11000 opcode:5 10 rn:5 rd:5")
def scalar_pairwise(e: Emitter, f: SimpleNamespace) -> None:
    if not f.u and f.opcode == 0x1B and f.size == 3:
        operation, element = integer("add"), "i64"
    elif f.u and f.opcode in (0x0C, 0x0D, 0x0F):
        element = fp_of(f.size)
        operation = fp("fadd") if f.opcode == 0x0D else extreme(bool(f.size >> 1), f.opcode == 0x0C)
    else:
        raise NotImplementedError("pairwise reduction")
    lanes = 128 // (arith.SIZE.get(element) or 64)
    a = e.v(f.rn, f"<{lanes} x {element}>")
    first, second = e.shuffle(a, a, [0]), e.shuffle(a, a, [1])
    e.set_scalar(f.rd, e.extract(operation(e, first, second), 0))
