"""Translation units: the basic blocks reachable from an address within one function, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from . import isa  # noqa: F401  (fills the decoding table)
from .bits import TABLE, Branch
from .emit import Emitter

LIMIT = 4000  # instructions; a longer function continues in further units

Fetch = Callable[[int], int]
Stub = Callable[[int], "int | None"]


@dataclass
class Unit:
    """One unit: where it starts, what it contains, what the emulator has to execute for it."""

    entry: int
    text: str
    instructions: int
    emulated: list[tuple[int, int, str]] = field(default_factory=list)  # address, word, reason
    direct: list[int] = field(default_factory=list)  # static targets outside
    loops: bool = False


def discover(entry: int, low: int, high: int, fetch: Fetch, limit: int = LIMIT) -> dict[int, int]:
    """Blocks reachable from `entry` inside [low, high): start address to end address."""
    starts, seen, pending = {entry}, set(), [entry]
    while pending and len(seen) < limit:
        pc = pending.pop()
        while low <= pc < high and pc not in seen and len(seen) < limit:
            seen.add(pc)
            branch = _branch(fetch(pc), pc)
            if branch is not None:
                for target in branch.targets:
                    starts.add(target)
                    pending.append(target)
                if not branch.falls_through:
                    break
                if branch.targets:
                    starts.add(pc + 4)
            pc += 4
    blocks = {}
    for start in sorted(starts & seen):
        end = start
        while end in seen and (end == start or end not in starts):
            end += 4
            branch = _branch(fetch(end - 4), end - 4)
            if branch is not None and (branch.targets or not branch.falls_through):
                break
        blocks[start] = end
    return blocks


def _branch(word: int, pc: int) -> Branch | None:
    row = TABLE.find(word)
    return row.flow(row.extract(word), pc) if row is not None and row.flow is not None else None


def translate(entry: int, low: int, high: int, fetch: Fetch, flat: bool, stub: Stub, limit: int = LIMIT) -> Unit:
    """Translate the unit at `entry`; [low, high) is the function that contains it."""
    blocks = discover(entry, low, high, fetch, limit)
    emitter = Emitter(flat, frozenset(blocks), stub)
    unit = Unit(entry, "", 0)
    for start, end in blocks.items():
        emitter.start_block(start)
        unit.instructions += (end - start) // 4
        for pc in range(start, end, 4):
            _instruction(emitter, unit, pc, fetch(pc))
        last = _branch(fetch(end - 4), end - 4)
        if last is None or (last.falls_through and not last.targets):
            emitter.goto(end)
        elif any(target <= start and target in blocks for target in last.targets):
            unit.loops = True
    unit.direct = sorted(emitter.direct)
    unit.text = emitter.finish(f"u{entry:x}", entry)
    return unit


def _instruction(e: Emitter, unit: Unit, pc: int, word: int) -> None:
    """Translate one instruction, or have the emulator execute it."""
    row = TABLE.find(word)
    reason = "not in the table"
    e.pc = pc
    if row is not None:
        mark, node, count = len(e.lines), e.node.use, e.node.define
        compare = e.compare
        try:
            row.translate(e, row.extract(word))
            return
        except NotImplementedError as error:
            reason = str(error)
            del e.lines[mark:]
            e.node.use, e.node.define, e.compare = node, count, compare
    unit.emulated.append((pc, word, reason))
    e.single_step(pc)
