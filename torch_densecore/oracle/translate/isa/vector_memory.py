"""LD1..LD4 and ST1..ST4: structures in memory, one lane per register element."""

from __future__ import annotations

from types import SimpleNamespace

from ..bits import insn
from ..emit import Emitter, Value

_MULTIPLE = {0: (4, True), 2: (4, False), 4: (3, True), 6: (3, False), 7: (1, False), 8: (2, True), 10: (2, False)}


def _advance(e: Emitter, f: SimpleNamespace, base: Value, size: int) -> None:
    offset = e.const("i64", size) if f.rm == 31 else e.x(f.rm)
    e.set_x_sp(f.rn, e.op("add", base, offset))


def _multiple(e: Emitter, f: SimpleNamespace) -> int:
    if f.opcode not in _MULTIPLE:
        raise NotImplementedError("structure access")
    count, interleaved = _MULTIPLE[f.opcode]
    base, step = e.x_sp(f.rn), 8 << f.q
    element = f"i{8 << f.size}"
    lanes = step >> f.size
    numbers = [(f.rt + index) % 32 for index in range(count)]
    if not interleaved:
        ty = "<2 x i64>" if f.q else "i64"
        for index, number in enumerate(numbers):
            at = e.add(base, step * index)
            if f.load:
                value = e.load(at, ty)
                e.set_v(number, value) if f.q else e.set_v_half(number, value)
            else:
                e.store(at, e.v(number) if f.q else e.v_half(number, "i64"))
    elif f.load:
        whole = e.load(base, f"<{lanes * count} x {element}>")
        for index, number in enumerate(numbers):
            e.set_vec(number, e.shuffle(whole, whole, range(index, lanes * count, count)))
    else:
        _store_interleaved(e, base, [e.vec(number, element, f.q) for number in numbers], lanes)
    return step * count


def _store_interleaved(e: Emitter, base: Value, parts: list[Value], lanes: int) -> None:
    count = len(parts)
    while len(parts) < 4:
        parts.append(parts[0])
    low = e.shuffle(parts[0], parts[1], range(2 * lanes))
    high = e.shuffle(parts[2], parts[3], range(2 * lanes))
    order = [lane + register * lanes for lane in range(lanes) for register in range(count)]
    e.store(base, e.shuffle(low, high, order))


@insn("0 q 0011000 load 000000 opcode:4 size:2 rn:5 rt:5")
def multiple(e: Emitter, f: SimpleNamespace) -> None:
    _multiple(e, f)


@insn("0 q 0011001 load 0 rm:5 opcode:4 size:2 rn:5 rt:5")
def multiple_post(e: Emitter, f: SimpleNamespace) -> None:
    base = e.x_sp(f.rn)
    _advance(e, f, base, _multiple(e, f))


def _single(e: Emitter, f: SimpleNamespace) -> int:
    base, scale = e.x_sp(f.rn), f.opcode >> 1
    count = 1 + f.r + 2 * (f.opcode & 1)
    if scale == 3:
        size = 1 << f.size
        for index in range(count):
            value = e.load(e.add(base, size * index), f"i{8 * size}")
            e.set_vec((f.rt + index) % 32, e.splat(value, (8 << f.q) // size))
        return size * count
    lane = f.q << 3 | f.s << 2 | f.size
    if scale == 2 and f.size & 1:
        scale, lane = 3, f.q
    else:
        lane >>= scale
    size = 1 << scale
    for index in range(count):
        number, at = (f.rt + index) % 32, e.add(base, size * index)
        vector = e.vec(number, f"i{8 * size}", 1)
        if f.load:
            e.set_v(number, e.insert(vector, e.load(at, f"i{8 * size}"), lane))
        else:
            e.store(at, e.extract(vector, lane))
    return size * count


@insn("0 q 0011010 load r 00000 opcode:3 s size:2 rn:5 rt:5")
def single(e: Emitter, f: SimpleNamespace) -> None:
    _single(e, f)


@insn("0 q 0011011 load r rm:5 opcode:3 s size:2 rn:5 rt:5")
def single_post(e: Emitter, f: SimpleNamespace) -> None:
    base = e.x_sp(f.rn)
    _advance(e, f, base, _single(e, f))
