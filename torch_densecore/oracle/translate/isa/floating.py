"""Scalar floating point."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import float_immediate, insn
from ..emit import Emitter, Value
from . import arith
from .integer import choose_flags

_TYPES = {0: "float", 1: "double", 3: "half"}
_ROUNDING = "npmz"


def type_of(f: SimpleNamespace) -> str:
    """The operand type of the `ftype` field."""
    if f.ftype not in _TYPES:
        raise NotImplementedError("reserved floating-point type")
    return _TYPES[f.ftype]


@insn("00011110 ftype:2 1 opcode:6 10000 rn:5 rd:5")
def one_source(e: Emitter, f: SimpleNamespace) -> None:
    a = e.scalar(f.rn, type_of(f))
    opcode = f.opcode
    if opcode == 0:
        result = a
    elif opcode == 1:
        result = arith.absolute(e, a)
    elif opcode == 2:
        result = e.fneg(a)
    elif opcode == 3:
        result = arith.square_root(e, a)
    elif opcode in (4, 5, 7):
        result = arith.convert(e, a, _TYPES[opcode & 3])
    elif 8 <= opcode <= 15 and opcode != 13:
        result = arith.round_to_integral(e, a, "npmza?xi"[opcode - 8])
    else:
        raise NotImplementedError("floating-point operation")
    e.set_scalar(f.rd, result)


@insn("00011110 ftype:2 1 rm:5 opcode:4 10 rn:5 rd:5")
def two_source(e: Emitter, f: SimpleNamespace) -> None:
    ty = type_of(f)
    a, b = e.scalar(f.rn, ty), e.scalar(f.rm, ty)
    opcode = f.opcode
    if opcode < 4:
        result = arith.binary(e, ("fmul", "fdiv", "fadd", "fsub")[opcode], a, b)
    elif opcode < 6:
        result = arith.maximum(e, a, b, opcode == 5)
    elif opcode < 8:
        result = arith.maximum_number(e, a, b, opcode == 7)
    elif opcode == 8:
        result = e.fneg(arith.binary(e, "fmul", a, b))
    else:
        raise NotImplementedError("floating-point operation")
    e.set_scalar(f.rd, result)


@insn("00011111 ftype:2 o1 rm:5 o0 ra:5 rn:5 rd:5")
def three_source(e: Emitter, f: SimpleNamespace) -> None:
    """FMADD, FMSUB, FNMADD, FNMSUB."""
    ty = type_of(f)
    a, b, c = e.scalar(f.rn, ty), e.scalar(f.rm, ty), e.scalar(f.ra, ty)
    if f.o0 != f.o1:
        a = e.fneg(a)
    if f.o1:
        c = e.fneg(c)
    e.set_scalar(f.rd, arith.fma(e, a, b, c))


def _compare(e: Emitter, a: Value, b: Value) -> None:
    less, equal, unordered = e.fcmp("olt", a, b), e.fcmp("oeq", a, b), e.fcmp("uno", a, b)
    e.set_flags(less, equal, e.fcmp("uge", a, b), unordered)
    e.compare = ("fcmp", a, b)


@insn("00011110 ftype:2 1 rm:5 001000 rn:5 e zero 000")
def compare(e: Emitter, f: SimpleNamespace) -> None:
    ty = type_of(f)
    _compare(e, e.scalar(f.rn, ty), e.fp_bits(ty, 0) if f.zero else e.scalar(f.rm, ty))


@insn("00011110 ftype:2 1 rm:5 cond:4 01 rn:5 e nzcv:4")
def conditional_compare(e: Emitter, f: SimpleNamespace) -> None:
    ty = type_of(f)
    holds = e.condition(f.cond)
    _compare(e, e.scalar(f.rn, ty), e.scalar(f.rm, ty))
    choose_flags(e, holds, f.nzcv)


@insn("00011110 ftype:2 1 rm:5 cond:4 11 rn:5 rd:5")
def conditional_select(e: Emitter, f: SimpleNamespace) -> None:
    ty = f"i{arith.SIZE[type_of(f)]}"
    e.set_scalar(f.rd, e.select(e.condition(f.cond), e.scalar(f.rn, ty), e.scalar(f.rm, ty)))


@insn("00011110 ftype:2 1 imm8:8 10000000 rd:5")
def move_immediate(e: Emitter, f: SimpleNamespace) -> None:
    size = arith.SIZE[type_of(f)]
    e.set_scalar(f.rd, e.const(f"i{size}", float_immediate(f.imm8, size)))


@insn("sf 0011110 ftype:2 1 rmode:2 opcode:3 000000 rn:5 rd:5")
def integer_conversion(e: Emitter, f: SimpleNamespace) -> None:
    """FCVT[NPMZA][SU], [SU]CVTF and FMOV between the register files."""
    size = 64 if f.sf else 32
    if f.opcode >= 6:
        _move(e, f, size)
        return
    ty, signed = type_of(f), f.opcode & 1 == 0
    if f.opcode < 2 or (f.opcode in (4, 5) and f.rmode == 0):
        mode = _ROUNDING[f.rmode] if f.opcode < 2 else "a"
        e.set_x(f.rd, arith.to_integer(e, e.scalar(f.rn, ty), f"i{size}", signed, mode))
    elif f.opcode in (2, 3) and f.rmode == 0:
        e.set_scalar(f.rd, arith.from_integer(e, e.x(f.rn, size), ty, signed))
    else:
        raise NotImplementedError("conversion")


def _move(e: Emitter, f: SimpleNamespace, size: int) -> None:
    to_vector = f.opcode & 1
    if f.ftype == 2 and f.rmode == 1 and f.sf:  # the upper half of a vector register
        if to_vector:
            e.set_v(f.rd, e.insert(e.v(f.rd), e.x(f.rn), 1))
        else:
            e.set_x(f.rd, e.extract(e.v(f.rn), 1))
        return
    bits = {0: 32, 1: 64, 3: 16}.get(f.ftype)
    if bits is None or f.rmode or (bits != size and bits != 16):
        raise NotImplementedError("move")
    if to_vector:
        e.set_scalar(f.rd, e.x(f.rn, bits))
    else:
        e.set_x(f.rd, e.scalar(f.rn, f"i{bits}"))


@insn("sf 0011110 ftype:2 0 rmode:2 opcode:3 scale:6 rn:5 rd:5")
def fixed_point_conversion(e: Emitter, f: SimpleNamespace) -> None:
    size, ty, signed = 64 if f.sf else 32, type_of(f), f.opcode & 1 == 0
    fraction = 64 - f.scale
    if f.rmode == 3 and f.opcode < 2:
        e.set_x(f.rd, arith.to_integer(e, e.scalar(f.rn, ty), f"i{size}", signed, "z", fraction))
    elif f.rmode == 0 and f.opcode in (2, 3):
        e.set_scalar(f.rd, arith.from_integer(e, e.x(f.rn, size), ty, signed, fraction))
    else:
        raise NotImplementedError("conversion")
