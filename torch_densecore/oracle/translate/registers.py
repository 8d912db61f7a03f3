"""Guest registers of a unit, and which of them must move between the context and the unit's own variables.

A unit keeps guest registers in local variables.  At a call or an exit the changed ones go to the context, after a
call the ones that are still needed come back.  Two data-flow problems over the straight-line pieces (nodes) of the
unit find both sets: what may have been changed since the last exchange, and what may be read before the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import context as ctx


@dataclass(frozen=True)
class Register:
    """One guest register: bit in the sets, place in the context, IR type."""

    name: str
    bit: int
    offset: int
    ty: str


def _registers() -> Iterable[Register]:
    for number in range(32):
        yield Register(f"x{number}", 1 << number, ctx.X + 8 * number, "i64")
    for number in range(32):
        yield Register(f"v{number}", 1 << 32 + number, ctx.V + 16 * number, "<2 x i64>")
    for number, flag in enumerate("nzcv"):
        yield Register(f"f{flag}", 1 << 64 + number, ctx.FLAGS + number, "i1")


REGISTERS = {register.name: register for register in _registers()}
FLAG_MASK = 0xF << 64


@dataclass(eq=False)
class Node:
    """Straight-line code up to a branch or an exchange with the context."""

    label: str | None = None  # if a branch can reach the node
    use: int = 0  # read before written
    define: int = 0  # written
    synchronised: bool = False  # ends in an exchange
    ignored: int = 0  # changes that need not survive the exchange
    successors: list[str] = field(default_factory=list)  # labels
    followers: list[Node] = field(default_factory=list)
    dirty: int = 0  # may differ from the context at the end
    needed: int = 0  # must be valid at the start

    def reads(self, bit: int) -> None:
        """Note a read."""
        self.use |= bit & ~self.define

    def writes(self, bit: int) -> None:
        """Note a write."""
        self.define |= bit


def solve(nodes: list[Node]) -> None:
    """Fill `dirty` and `needed` of every node."""
    labels = {node.label: node for node in nodes if node.label is not None}
    follow = {id(node): node.followers + [labels[label] for label in node.successors] for node in nodes}
    incoming = {id(node): 0 for node in nodes}
    pending = list(nodes)
    while pending:
        node = pending.pop()
        node.dirty = incoming[id(node)] | node.define
        if node.synchronised:
            continue
        for successor in follow[id(node)]:
            if node.dirty & ~incoming[id(successor)]:
                incoming[id(successor)] |= node.dirty
                pending.append(successor)
    changed = True
    while changed:
        changed = False
        for node in reversed(nodes):
            after = node.dirty & ~node.ignored if node.synchronised else 0
            if not node.synchronised:
                for successor in follow[id(node)]:
                    after |= successor.needed
            needed = node.use | after & ~node.define
            if needed != node.needed:
                node.needed, changed = needed, True
