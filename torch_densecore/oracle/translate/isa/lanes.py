"""Operations on lanes that several classes of vector instructions share."""

from __future__ import annotations

from collections.abc import Callable

from ..bits import ones
from ..emit import Emitter, Value, element_of, lanes_of, with_element
from . import arith

Binary = Callable[[Emitter, Value, Value], Value]
FP = ("float", "double")


def fp_of(size: int) -> str:
    return FP[size & 1]


def mask(e: Emitter, condition: Value, bits: int) -> Value:
    """All ones where a lane condition holds."""
    return e.cast("sext", condition, with_element(condition.ty, f"i{bits}"))


def width(a: Value) -> int:
    return arith.SIZE.get(element_of(a.ty)) or int(element_of(a.ty)[1:])


def integer(opcode: str) -> Binary:
    return lambda e, a, b: e.op(opcode, a, b)


def intrinsic(name: str) -> Binary:
    return lambda e, a, b: e.intrinsic(name, a, b)


def compare(predicate: str) -> Binary:
    return lambda e, a, b: mask(e, e.icmp(predicate, a, b), width(a))


def compare_fp(predicate: str) -> Binary:
    return lambda e, a, b: mask(e, e.fcmp(predicate, a, b), width(a))


def pairs(e: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """Even and odd elements of two concatenated vectors."""
    lanes = lanes_of(a.ty)
    return e.shuffle(a, b, range(0, 2 * lanes, 2)), e.shuffle(a, b, range(1, 2 * lanes, 2))


def pairwise(operation: Binary) -> Binary:
    return lambda e, a, b: operation(e, *pairs(e, a, b))


def fp(opcode: str) -> Binary:
    return lambda e, a, b: arith.binary(e, opcode, a, b)


def extreme(smallest: bool, number: bool) -> Binary:
    function = arith.maximum_number if number else arith.maximum
    return lambda e, a, b: function(e, a, b, smallest)


def half_of(e: Emitter, number: int, element: str, upper: int) -> Value:
    """The lower or upper 64 bits of a register, as elements."""
    bits = arith.SIZE.get(element) or int(element[1:])
    return e.v_half(number, f"<{64 // bits} x {element}>", bool(upper))


def set_narrow(e: Emitter, number: int, a: Value, upper: int) -> None:
    """Write 64 bits to the lower half, clearing the rest, or to the upper half, keeping the rest."""
    if upper:
        e.set_v(number, e.insert(e.v(number), e.bits(a, "i64"), 1))
    else:
        e.set_v_half(number, a)


def saturate(e: Emitter, a: Value, bits: int, from_signed: bool, to_signed: bool) -> Value:
    high = e.const(a.ty, ones(bits - 1) if to_signed else ones(bits))
    if not from_signed:
        return e.intrinsic("umin", a, high)
    low = e.const(a.ty, -(1 << bits - 1) if to_signed else 0)
    return e.intrinsic("smin", e.intrinsic("smax", a, low), high)


def shift_right(e: Emitter, a: Value, count: int, unsigned: bool, rounding: bool) -> Value:
    bits = width(a)
    opcode = "lshr" if unsigned else "ashr"
    if count < bits:
        result = e.op(opcode, a, e.const(a.ty, count))
    else:
        result = e.const(a.ty, 0) if unsigned else e.op("ashr", a, e.const(a.ty, bits - 1))
    if rounding:  # add the last bit shifted out
        lost = e.op("lshr", a, e.const(a.ty, count - 1))
        result = e.op("add", result, e.op("and", lost, e.const(a.ty, 1)))
    return result
