"""Translation units: the basic blocks reachable from an address within one function, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from ..memory import GuestFault
from . import isa  # noqa: F401  (fills the decoding table)
from .bits import TABLE, Branch, sign_extend
from .emit import Emitter

LIMIT = 4000  # instructions; a longer function continues in further units
INLINE_LIMIT, INLINE_TOTAL = 400, 3000  # instructions of one inlined function, of all in a unit
INLINE_CALLS = 4  # calls in an inlined function: a few, as a slow path has them
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
    hooked: Container[int] = ()  # functions that must be called to be seen
    seen: Callable[[int], int | None] = lambda _: None  # target that an indirect call had
    features: frozenset[str] = frozenset()  # of the host that the IR may use, by LLVM's names


class Translator:
    """Translates one unit.

    optimise: inline small functions into loops; else the unit counts how busy it is, and asks for that when it is.
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
        emitter.features = self.code.features
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
        """Emit the body of a function in place of a call inside a loop, if it is small enough.

        An indirect call is inlined under the condition that it goes where it went last, which units that are not optimised
        note.
        """
        word = self.code.fetch(pc)
        if e.scope.back is not None or not any(a <= pc < b for a, b in self._loops):
            return False
        register = _call_register(word)
        if not self.optimise:
            if register is not None:
                e.note_target(pc, register)
            return False
        target = _call_target(word, pc) if register is None else self.code.seen(pc)
        body = inlinable(target, self.code) if target is not None else {}
        size = sum(end - start for start, end in body.items()) // 4
        if not body or size > self._room:
            return False
        self._room -= size
        with e.inlined(target, frozenset(body), pc + 4, register):
            self._blocks(e, unit, body)
        return True


def _call_target(word: int, pc: int) -> int | None:
    return pc + sign_extend(word, 26) * 4 if word >> 26 == 0b100101 else None


def _call_register(word: int) -> int | None:
    """Register of an indirect call."""
    return word >> 5 & 0x1F if word & 0xFFFFFC1F == 0xD63F0000 else None


def inlinable(entry: int, code: Code) -> dict[int, int]:
    """Blocks of a small function that is left by returns alone and makes few calls; empty for any other."""
    try:
        low, high = code.extent(entry)
    except GuestFault:  # an import
        return {}
    if entry != low or high - low > 4 * INLINE_LIMIT or entry in code.hooked:
        return {}
    blocks = discover(entry, low, high, code.fetch, INLINE_LIMIT)
    words = {pc: code.fetch(pc) for start, end in blocks.items() for pc in range(start, end, 4)}
    if sum(_is_call(word, pc) for pc, word in words.items()) > INLINE_CALLS or any(TABLE.find(w) is None for w in words.values()):
        return {}
    ends = ((end - 4, _branch(words[end - 4], end - 4)) for end in blocks.values())
    return blocks if all(_stays(at, branch, blocks, words[at]) for at, branch in ends) else {}


def _is_call(word: int, pc: int) -> bool:
    branch = _branch(word, pc)
    return branch is not None and branch.falls_through and not branch.targets


def _stays(at: int, branch: Branch | None, blocks: dict[int, int], word: int) -> bool:
    """Whether a block ends in a return, or goes on in the same function."""
    if branch is None or branch.falls_through:
        return at + 4 in blocks and all(target in blocks for target in (branch.targets if branch else ()))
    return word == RETURN if not branch.targets else all(target in blocks for target in branch.targets)


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
