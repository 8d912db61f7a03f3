"""Floating-point operations with the Arm manual's results (NaN sign and payload excepted), for scalars and vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..bits import ones
from ..emit import Emitter, Value, element_of, fp_type, lanes_of, with_element

SIZE = {"half": 16, "float": 32, "double": 64}
_FRACTION = {"half": 10, "float": 23, "double": 52}
_HOST_COMPARE = {"<4 x float>": "llvm.x86.sse.cmp.ps", "<2 x double>": "llvm.x86.sse2.cmp.pd"}
ROUND = {"n": "roundeven", "m": "floor", "p": "ceil", "z": "trunc", "a": "round", "x": "roundeven", "i": "roundeven"}


def as_int_type(ty: str) -> str:
    """Integer type of the same shape."""
    return with_element(ty, f"i{SIZE[element_of(ty)]}")


def as_int(e: Emitter, a: Value) -> Value:
    """The bits of a floating-point value."""
    return e.bits(a, as_int_type(a.ty))


def fma(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """a * b + c with one rounding."""
    return _half_fma(e, a, b, c) if element_of(a.ty) == "half" else e.intrinsic("fma", a, b, c)


def _half_fma(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """In double: the product is exact, the sum is rounded to odd, which makes the second rounding harmless."""
    wide = [convert(e, value, "double") for value in (a, b, c)]
    product = e.op("fmul", wide[0], wide[1])
    total = e.op("fadd", product, wide[2])
    part = e.op("fsub", total, product)
    lost = e.op("fadd", e.op("fsub", product, e.op("fsub", total, part)), e.op("fsub", wide[2], part))
    zero, word = e.fp_bits(total.ty, 0), as_int(e, total)
    even = e.icmp("eq", e.op("and", word, e.const(word.ty, 1)), e.const(word.ty, 0))
    inexact = e.op("and", e.fcmp("one", lost, zero), even)
    away = e.icmp("eq", e.fcmp("ogt", lost, zero), e.fcmp("ogt", total, zero))
    odd = e.select(away, e.add(word, 1), e.add(word, -1))
    return convert(e, e.bits(e.select(inexact, odd, word), total.ty), "half")


def through_single(function: Callable[..., Value]) -> Callable[..., Value]:
    """Operations on half operands are done in single: 24 bits are enough that the second rounding changes nothing."""

    @wraps(function)
    def call(e: Emitter, a: Value, *args: Any) -> Value:
        if element_of(a.ty) != "half":
            return function(e, a, *args)
        single = [convert(e, v, "float") if isinstance(v, Value) else v for v in (a, *args)]
        return convert(e, function(e, *single), "half")

    return call


@through_single
def _binary(e: Emitter, a: Value, b: Value, opcode: str) -> Value:
    return e.op(opcode, a, b)


def binary(e: Emitter, opcode: str, a: Value, b: Value) -> Value:
    """fadd, fsub, fmul or fdiv."""
    return _binary(e, a, b, opcode)


@through_single
def maximum(e: Emitter, a: Value, b: Value, smallest: bool) -> Value:
    """FMAX, FMIN: NaN if either is NaN; +0 is greater than -0.

    Without an instruction that knows the signs of zeros, each selection is one instruction of the host, which gives its second
    operand if the two are zeros or not ordered. Both orders together have the signs of both zeros; NaN is all ones.
    """
    if (ordered := _ordered_maximum(e, a, b, smallest)) is None:
        predicate = "olt" if smallest else "ogt"
        first = as_int(e, e.select(e.fcmp(predicate, a, b), a, b))
        second = as_int(e, e.select(e.fcmp(predicate, b, a), b, a))
        ordered = e.op("or" if smallest else "and", first, second)
    return e.bits(e.op("or", ordered, _unordered(e, a, b)), a.ty)


def _ordered_maximum(e: Emitter, a: Value, b: Value, smallest: bool) -> Value | None:
    """The bits of the result where neither operand is NaN: VRANGE of AVX-512, which makes a chain of maxima a quarter faster."""
    name = {"<4 x float>": "ps", "<2 x double>": "pd"}.get(a.ty)
    if name is None or not e.features >= {"avx512dq", "avx512vl"}:
        return None
    options = Value("i32", "4" if smallest else "5")  # bit 0: the greater one; 4: with its own sign
    mask = Value("i8", "-1")
    return as_int(e, e.call(a.ty, f"llvm.x86.avx512.mask.range.{name}.128", a, b, options, a, mask))


def _unordered(e: Emitter, a: Value, b: Value) -> Value:
    """All ones in the lanes where a or b is NaN."""
    if a.ty in _HOST_COMPARE:
        return _host_compare(e, "uno", a, b)
    return e.cast("sext", e.fcmp("uno", a, b), as_int_type(a.ty))


def _host_compare(e: Emitter, predicate: str, a: Value, b: Value) -> Value:
    """All ones in the lanes where a comparison holds, by an instruction that leaves out the host's slower mask registers."""
    code = Value("i8", {"ole": "2", "uno": "3", "ord": "7"}[predicate])
    return as_int(e, e.call(a.ty, _HOST_COMPARE[a.ty], a, b, code))


def maximum_number(e: Emitter, a: Value, b: Value, smallest: bool) -> Value:
    """FMAXNM, FMINNM: the number if one operand is a quiet NaN; a signaling NaN gives NaN."""
    both = maximum(e, a, b, smallest)
    a_quiet, b_quiet = _quiet_nan(e, a), _quiet_nan(e, b)
    false = e.const(a_quiet.ty, 0)
    a_number, b_number = e.fcmp("ord", a, a), e.fcmp("ord", b, b)
    take_b = e.select(a_quiet, b_number, false)
    take_a = e.select(b_quiet, a_number, false)
    return e.select(take_b, b, e.select(take_a, a, both))


def _quiet_nan(e: Emitter, a: Value) -> Value:
    word = as_int(e, a)
    element = element_of(a.ty)
    size, fraction = SIZE[element], _FRACTION[element]
    magnitude = e.op("and", word, e.const(word.ty, ones(size - 1)))
    return e.icmp("uge", magnitude, e.const(word.ty, (ones(size - 1 - fraction) << fraction) | 1 << fraction - 1))


def absolute(e: Emitter, a: Value) -> Value:
    """Clear the sign."""
    return e.intrinsic("fabs", a)


@through_single
def square_root(e: Emitter, a: Value) -> Value:
    """Correctly rounded square root."""
    return e.intrinsic("sqrt", a)


@through_single
def round_to_integral(e: Emitter, a: Value, mode: str) -> Value:
    """FRINT*: `mode` is the last letter of the mnemonic (X and I follow the FPCR, which is round to nearest)."""
    return e.intrinsic(ROUND[mode], a)


def to_integer(e: Emitter, a: Value, ty: str, signed: bool, mode: str = "z", scale: int = 0) -> Value:
    """Saturating conversion; NaN gives 0. `scale` counts fraction bits of the result."""
    a = convert(e, a, "float") if element_of(a.ty) == "half" else a
    if scale:
        a = e.op("fmul", a, power_of_two(e, a.ty, scale))
    singles = signed and ty in ("<2 x i32>", "<4 x i32>") and element_of(a.ty) == "float"
    if singles and mode == "n":
        return _convert_singles(e, a, "llvm.x86.sse2.cvtps2dq")
    if mode != "z":
        a = round_to_integral(e, a, mode)
    if singles:
        return _convert_singles(e, a, "llvm.x86.sse2.cvttps2dq")
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{_suffix(ty)}.{_suffix(a.ty)}"
    return e.call(ty, name, a)


def _convert_singles(e: Emitter, a: Value, instruction: str) -> Value:
    """Saturating conversion of singles by an instruction of the host, which gives 0x80000000 for what does not fit.

    LLVM's saturating conversion goes lane by lane, at a third of the speed of a whole SLEEF function.
    """
    lanes = lanes_of(a.ty)
    wide = a if lanes == 4 else e.shuffle(a, a, [0, 1, 0, 1])
    whole = e.call("<4 x i32>", instruction, wide)
    too_big = _host_compare(e, "ole", power_of_two(e, wide.ty, 31), wide)
    number = _host_compare(e, "ord", wide, wide)
    result = e.op("and", e.op("xor", whole, too_big), number)
    return result if lanes == 4 else e.shuffle(result, result, [0, 1])


def _suffix(ty: str) -> str:
    lanes, element = lanes_of(ty), element_of(ty)
    return (f"v{lanes}" if lanes else "") + {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)


def from_integer(e: Emitter, a: Value, ty: str, signed: bool, scale: int = 0) -> Value:
    """Conversion with one rounding to nearest; `scale` counts fraction bits of the operand."""
    if "half" in ty:  # an integer that single can't hold exactly is beyond the range of half
        if scale:
            raise NotImplementedError("half-precision conversion of a fixed-point number")
        return convert(e, from_integer(e, a, with_element(ty, "float"), signed), "half")
    result = e.cast("sitofp" if signed else "uitofp", a, ty)
    return e.op("fmul", result, power_of_two(e, ty, -scale)) if scale else result


def power_of_two(e: Emitter, ty: str, exponent: int) -> Value:
    """Constant 2**exponent."""
    fraction = _FRACTION[element_of(ty)]
    bias = {"float": 127, "double": 1023}[element_of(ty)]
    return e.fp_bits(ty, (exponent + bias) << fraction)


def narrow_to_odd(e: Emitter, a: Value) -> Value:
    """Double to single, rounding to odd: truncate, and set the last bit if anything was lost."""
    lanes = lanes_of(a.ty)
    nearest = e.cast("fptrunc", a, fp_type(32, lanes))
    back = e.cast("fpext", nearest, a.ty)
    word = as_int(e, nearest)
    too_big = e.fcmp("ogt", absolute(e, back), absolute(e, a))
    toward_zero = e.select(too_big, e.add(word, -1), word)
    inexact = e.fcmp("one", back, a)
    odd = e.op("or", toward_zero, e.const(word.ty, 1))
    return e.bits(e.select(inexact, odd, toward_zero), nearest.ty)


def convert(e: Emitter, a: Value, element: str) -> Value:
    """FCVT between precisions."""
    source = element_of(a.ty)
    if source == element:
        return a
    ty = with_element(a.ty, element)
    if source == "double" and element == "half":  # through single, rounded to odd: no double rounding
        return e.cast("fptrunc", narrow_to_odd(e, a), ty)
    if source == "half" and element == "double":
        return e.cast("fpext", e.cast("fpext", a, with_element(a.ty, "float")), ty)
    return e.cast("fpext" if SIZE[element] > SIZE[source] else "fptrunc", a, ty)
