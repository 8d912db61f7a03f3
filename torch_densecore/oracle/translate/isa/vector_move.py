"""Vector moves: copies of lanes, immediates, permutations, table lookup."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import float_immediate, insn
from ..emit import Emitter, lanes_of


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
