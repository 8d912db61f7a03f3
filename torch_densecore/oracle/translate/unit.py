"""Translation units: the basic blocks reachable from an address within one function, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..memory import GuestFault
from . import isa  # noqa: F401  (fills the decoding table)
from .bits import TABLE, Branch, Pattern, sign_extend
from .emit import Emitter

LIMIT = 4000  # instructions; a longer function continues in further units
INLINE_LIMIT, INLINE_TOTAL = 400, 3000  # instructions of one function, of all in a unit
RETURN = 0xD65F03C0

Fetch = Callable[[int], int]


@dataclass
class Unit:
    """One unit: where it starts, what it contains, what the emulator has to execute for it."""

    entry: int
    text: str
    instructions: int
    emulated: list[tuple[int, int, str]] = field(default_factory=list)  # address, word, reason
    direct: list[int] = field(default_factory=list)  # static targets outside


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


@dataclass(frozen=True)
class Code:
    """Where guest code is read from, and how far functions reach."""

    fetch: Fetch
    extent: Callable[[int], tuple[int, int]]  # the function that contains an address
    stub: Callable[[int], int | None] = lambda _: None  # final target of an import's veneer


class Translator:
    """Translates one unit.

    optimise: inline leaf functions into loops; else the unit counts how busy it is, and asks for that when it is.
    emulate: leave everything but branches to the emulator.
    """

    def __init__(self, code: Code, flat: bool, optimise: bool, emulate: bool = False) -> None:
        self.code, self.flat, self.optimise, self.emulate = code, flat, optimise, emulate
        self._loops: list[tuple[int, int]] = []  # address ranges that a backward branch repeats
        self._room = INLINE_TOTAL

    def translate(self, entry: int) -> Unit:
        """The unit that starts at `entry`."""
        fetch = self.code.fetch
        low, high = self.code.extent(entry)
        blocks = discover(entry, low, high, fetch)
        for start, end in blocks.items():
            last = _branch(fetch(end - 4), end - 4)
            self._loops += [(t, end) for t in (last.targets if last else ()) if t <= start and t in blocks]
        emitter = Emitter(self.flat, frozenset(blocks), self.code.stub)
        emitter.counted = None if self.optimise else entry
        emitter.loop_heads = frozenset(head for head, _ in self._loops)
        unit = Unit(entry, "", 0)
        self._blocks(emitter, unit, blocks)
        unit.direct = sorted(emitter.direct)
        unit.text = emitter.finish(f"u{entry:x}", entry)
        return unit

    def _blocks(self, e: Emitter, unit: Unit, blocks: dict[int, int]) -> None:
        for start, end in blocks.items():
            e.start_block(start)
            unit.instructions += (end - start) // 4
            for pc in range(start, end, 4):
                if self.emulate and _branch(self.code.fetch(pc), pc) is None:
                    unit.emulated.append((pc, self.code.fetch(pc), "the unit could not be compiled"))
                    e.single_step(pc)
                elif self.emulate or not self._inline(e, unit, pc):
                    _instruction(e, unit, pc, self.code.fetch(pc))
            last = _branch(self.code.fetch(end - 4), end - 4)
            if last is None or (last.falls_through and not last.targets):
                e.goto(end)

    def _inline(self, e: Emitter, unit: Unit, pc: int) -> bool:
        """Emit the body of a leaf function in place of a call inside a loop, if it is small enough."""
        target = _call_target(self.code.fetch(pc), pc)
        if (
            not self.optimise
            or target is None
            or e.scope.back is not None
            or not any(a <= pc < b for a, b in self._loops)
        ):
            return False
        body = leaf(target, self.code)
        size = sum(end - start for start, end in body.items()) // 4
        if not body or size > self._room:
            return False
        self._room -= size
        with e.inlined(target, frozenset(body), pc + 4):
            self._blocks(e, unit, body)
        return True


def _call_target(word: int, pc: int) -> int | None:
    return pc + sign_extend(word, 26) * 4 if word >> 26 == 0b100101 else None


def leaf(entry: int, code: Code) -> dict[int, int]:
    """Blocks of a small function without calls that returns through an untouched X30; empty for any other."""
    try:
        low, high = code.extent(entry)
    except GuestFault:  # an import
        return {}
    if entry != low or high - low > 4 * INLINE_LIMIT:
        return {}
    blocks = discover(entry, low, high, code.fetch, INLINE_LIMIT)
    ends = {}
    for start, end in blocks.items():
        for pc in range(start, end, 4):
            row = TABLE.find(code.fetch(pc))
            if row is None or row.name in ("hint", "breakpoint_instruction") or _writes_link(row, code.fetch(pc)):
                return {}
        ends[end - 4] = _branch(code.fetch(end - 4), end - 4)
    for at, branch in ends.items():
        calls = branch is not None and branch.falls_through and not branch.targets
        outside = branch is not None and any(target not in blocks for target in branch.targets)
        leaves = branch is not None and not branch.targets and code.fetch(at) != RETURN
        if calls or outside or leaves or (branch is None and at + 4 not in blocks):
            return {}
        if branch is not None and branch.falls_through and at + 4 not in blocks:
            return {}
    return blocks


def _writes_link(row: Pattern, word: int) -> bool:
    """Whether an instruction may write X30; any mention of number 30 by an integer instruction counts."""
    fields = vars(row.extract(word))
    if fields.get("v") or row.translate.__module__.endswith((".vector", ".floating", ".vector_memory")):
        return row.name in ("integer_conversion", "fixed_point_conversion", "copy") and fields["rd"] == 30
    return word != RETURN and any(fields.get(name) == 30 for name in ("rd", "rt", "rt2", "rs", "rn"))


def _instruction(e: Emitter, unit: Unit, pc: int, word: int) -> None:
    """Translate one instruction, or have the emulator execute it."""
    row = TABLE.find(word)
    reason = "not in the table"
    e.pc = pc
    if row is not None:
        mark, use, define, compare = len(e.lines), e.node.use, e.node.define, e.compare
        try:
            row.translate(e, row.extract(word))
            return
        except NotImplementedError as error:
            reason = str(error)
            del e.lines[mark:]
            e.node.use, e.node.define, e.compare = use, define, compare
    unit.emulated.append((pc, word, reason))
    e.single_step(pc)
