"""Vector shifts by an immediate, and the fixed-point conversions that are encoded with them."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import insn, ones
from ..emit import Emitter, Value, element_of, int_type, with_element
from . import arith
from .lanes import FP, half_of, saturate, set_narrow, shift_right


def _immediate_shift(e: Emitter, f: SimpleNamespace, a: Value, bits: int) -> Value:
    """Shifts by an immediate that keep the element size."""
    code = f.immh << 3 | f.immb
    right, left = 2 * bits - code, code - bits
    if f.opcode in (0x00, 0x02, 0x04, 0x06):
        shifted = shift_right(e, a, right, bool(f.u), rounding=f.opcode >= 4)
        if f.opcode & 2:
            shifted = e.op("add", e.vec(f.rd, element_of(a.ty), f.q), shifted)
        return shifted
    if f.opcode == 0x0A and not f.u:
        return e.op("shl", a, e.const(a.ty, left))
    if f.u and f.opcode in (0x08, 0x0A):  # SRI, SLI
        kept = ones(right) << bits - right if f.opcode == 0x08 else ones(left)
        old = e.op("and", e.vec(f.rd, element_of(a.ty), f.q), e.const(a.ty, kept))
        new = shift_right(e, a, right, True, False) if f.opcode == 8 else e.op("shl", a, e.const(a.ty, left))
        return e.op("or", old, e.op("and", new, e.const(a.ty, ~kept)))
    if f.opcode in (0x1C, 0x1F) and bits >= 32:
        return _fixed_point(e, f, a, bits, right)
    raise NotImplementedError("shift")


def _fixed_point(e: Emitter, f: SimpleNamespace, a: Value, bits: int, fraction: int) -> Value:
    fp = with_element(a.ty, FP[bits == 64])
    if f.opcode == 0x1C:
        return arith.from_integer(e, a, fp, not f.u, fraction)
    return arith.to_integer(e, e.bits(a, fp), a.ty, not f.u, "z", fraction)


@insn("0 q u 011110 immh:4 immb:3 opcode:5 1 rn:5 rd:5")
def shift_immediate(e: Emitter, f: SimpleNamespace) -> None:
    bits = 8 << f.immh.bit_length() - 1
    code = f.immh << 3 | f.immb
    if 0x10 <= f.opcode <= 0x13 and bits < 64:
        _shift_narrow(e, f, bits, 2 * bits - code)
    elif f.opcode == 0x14 and bits < 64:  # SSHLL, USHLL
        a = half_of(e, f.rn, f"i{bits}", f.q)
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
        a = shift_right(e, a, count, True, True)
    else:
        a = shift_right(e, a, count, not saturating or bool(unsigned), False)
    if saturating:
        a = saturate(e, a, bits, from_signed=not unsigned, to_signed=not f.u)
    set_narrow(e, f.rd, e.cast("trunc", a, with_element(ty, f"i{bits}")), f.q)


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
