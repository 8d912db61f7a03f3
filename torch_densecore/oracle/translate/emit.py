"""Text of LLVM IR for one translation unit: values, guest registers, flags, memory.

The text is written directly: building it through an object model takes several times longer than LLVM needs to
compile it.  No floating-point operation carries a fast-math flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from . import context as ctx
from .registers import FLAG_MASK, REGISTERS, Node, solve

FP_NAMES = {16: "half", 32: "float", 64: "double"}
_FP_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


class Value(NamedTuple):
    """An IR value: its type and its name or constant."""

    ty: str
    name: str

    def __str__(self) -> str:
        return f"{self.ty} {self.name}"


def int_type(bits: int, lanes: int = 0) -> str:
    """iN or <lanes x iN>."""
    return f"<{lanes} x i{bits}>" if lanes else f"i{bits}"


def fp_type(bits: int, lanes: int = 0) -> str:
    """half, float or double, or a vector of them."""
    return f"<{lanes} x {FP_NAMES[bits]}>" if lanes else FP_NAMES[bits]


def lanes_of(ty: str) -> int:
    """Lanes of a vector type, 0 for a scalar."""
    return int(ty[1 : ty.index(" ")]) if ty[0] == "<" else 0


def element_of(ty: str) -> str:
    """Element type of a vector type, the type itself for a scalar."""
    return ty[ty.index("x ") + 2 : -1] if ty[0] == "<" else ty


def with_element(ty: str, element: str) -> str:
    """The type with the same lanes and another element type."""
    lanes = lanes_of(ty)
    return f"<{lanes} x {element}>" if lanes else element


def mangle(ty: str) -> str:
    """Type suffix of an overloaded intrinsic."""
    lanes, element = lanes_of(ty), element_of(ty)
    return (f"v{lanes}" if lanes else "") + _FP_SUFFIX.get(element, element)


@dataclass(frozen=True)
class Scope:
    """Guest code with its own labels: a unit, or a copy of a function inlined into it."""

    name: str
    blocks: frozenset[int]  # guest addresses that start a basic block
    back: str | None = None  # label after the call, of an inlined function
    returns_to: int = 0  # its guest address

    def label(self, pc: int) -> str:
        """Label of a block."""
        return f"B{pc:x}{self.name}"


class Emitter:
    """Collects the body of one function `i64 (ctx*)`."""

    def __init__(self, flat: bool, blocks: frozenset[int], stub: Callable[[int], int | None] = lambda _: None) -> None:
        self.stub = stub  # final target of an import's veneer, None for other addresses
        self.flat = flat  # guest addresses are host addresses
        self.features: frozenset[str] = frozenset()  # of the host, beyond those that every host has
        self.scope = Scope("", blocks)
        self.counted: int | None = None  # guest address of the unit, if it counts how busy it is
        self.loop_heads: frozenset[int] = frozenset()
        self.lines: list[str | tuple[str, Node]] = []
        self.declarations: dict[str, str] = {}
        self.direct: set[int] = set()  # static targets outside the unit
        self.nodes: list[Node] = []
        self.compare: tuple[str, Value, Value] | None = None  # what the flags of this block come from
        self.rounded: dict[str, Value] = {}  # vector registers with a result of FRINTN in this block: its operand
        self.node = Node()
        self._exits: list[tuple[str, int, Node]] = []
        self._count = 0

    # ---- instructions -------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append one line."""
        self.lines.append(text)

    def _name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def label(self) -> str:
        """A fresh block name."""
        self._count += 1
        return f"L{self._count}"

    def begin(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")

    def value(self, ty: str, text: str) -> Value:
        """Append an instruction that yields a value of type `ty`."""
        name = self._name()
        self.lines.append(f"  {name} = {text}")
        return Value(ty, name)

    def op(self, opcode: str, a: Value, b: Value) -> Value:
        """Binary operation on two values of one type."""
        return self.value(a.ty, f"{opcode} {a.ty} {a.name}, {b.name}")

    def fneg(self, a: Value) -> Value:
        """Negation, a change of the sign bit alone."""
        return self.value(a.ty, f"fneg {a.ty} {a.name}")

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Integer comparison."""
        return self.value(with_element(a.ty, "i1"), f"icmp {predicate} {a.ty} {a.name}, {b.name}")

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        """Floating-point comparison."""
        return self.value(with_element(a.ty, "i1"), f"fcmp {predicate} {a.ty} {a.name}, {b.name}")

    def cast(self, opcode: str, a: Value, ty: str) -> Value:
        """Conversion; none if the type is already right."""
        return a if a.ty == ty else self.value(ty, f"{opcode} {a.ty} {a.name} to {ty}")

    def bits(self, a: Value, ty: str) -> Value:
        """The same bits as another type."""
        return self.cast("bitcast", a, ty)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Choice, lane by lane for a vector condition."""
        return self.value(a.ty, f"select {condition}, {a}, {b}")

    def call(self, ty: str, name: str, *args: Value) -> Value:
        """Call an intrinsic, declaring it on first use."""
        types = ", ".join(a.ty for a in args)
        self.declarations.setdefault(name, f"declare {ty} @{name}({types})")
        return self.value(ty, f"call {ty} @{name}({', '.join(map(str, args))})")

    def intrinsic(self, name: str, *args: Value) -> Value:
        """Call an intrinsic overloaded on the type of its first argument, which is also its result's."""
        return self.call(args[0].ty, f"llvm.{name}.{mangle(args[0].ty)}", *args)

    def const(self, ty: str, value: int) -> Value:
        """Integer constant, splatted over a vector type."""
        lanes, element = lanes_of(ty), element_of(ty)
        width = int(element[1:])
        value &= (1 << width) - 1
        if not lanes:
            return Value(ty, str(value))
        return Value(ty, "<" + ", ".join([f"{element} {value}"] * lanes) + ">")

    def fp_bits(self, ty: str, word: int) -> Value:
        """Floating-point constant from its bits, splatted over a vector type."""
        width = {"half": 16, "float": 32, "double": 64}[element_of(ty)]
        return self.bits(self.const(with_element(ty, f"i{width}"), word), ty)

    def splat(self, a: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        ty = f"<{lanes} x {a.ty}>"
        first = self.value(ty, f"insertelement {ty} poison, {a}, i32 0")
        return self.shuffle(first, first, [0] * lanes)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        """Lanes picked from two vectors."""
        ty = f"<{len(mask)} x {element_of(a.ty)}>"
        picks = ", ".join(f"i32 {index}" for index in mask)
        return self.value(ty, f"shufflevector {a}, {b}, <{len(mask)} x i32> <{picks}>")

    def extract(self, a: Value, index: int) -> Value:
        """One lane."""
        return self.value(element_of(a.ty), f"extractelement {a}, i32 {index}")

    def insert(self, a: Value, b: Value, index: int) -> Value:
        """The vector with one lane replaced."""
        return self.value(a.ty, f"insertelement {a}, {b}, i32 {index}")

    def vector(self, parts: Iterable[Value]) -> Value:
        """A vector of scalars."""
        parts = list(parts)
        out = Value(f"<{len(parts)} x {parts[0].ty}>", "poison")
        for index, part in enumerate(parts):
            out = self.insert(out, part, index)
        return out

    # ---- integer registers --------------------------------------------------------------------------

    def load_reg(self, name: str, ty: str) -> Value:
        """Current value of a guest register."""
        self.node.reads(REGISTERS[name].bit)
        return self.value(ty, f"load {ty}, ptr %{name}")

    def store_reg(self, name: str, a: Value) -> None:
        """Assign a guest register."""
        self.node.writes(REGISTERS[name].bit)
        self.rounded.pop(name, None)
        self.lines.append(f"  store {a}, ptr %{name}")

    def x(self, number: int, size: int = 64) -> Value:
        """Integer register; number 31 reads as zero."""
        if number == 31:
            return self.const(f"i{size}", 0)
        return self.cast("trunc", self.load_reg(f"x{number}", "i64"), f"i{size}")

    def x_sp(self, number: int, size: int = 64) -> Value:
        """Integer register; number 31 is the stack pointer."""
        return self.cast("trunc", self.load_reg(f"x{number}", "i64"), f"i{size}")

    def set_x(self, number: int, a: Value) -> None:
        """Write an integer register, zero-extended; number 31 discards."""
        if number != 31:
            self.store_reg(f"x{number}", self.cast("zext", a, "i64"))

    def set_x_sp(self, number: int, a: Value) -> None:
        """Write an integer register, zero-extended; number 31 is the stack pointer."""
        self.store_reg(f"x{number}", self.cast("zext", a, "i64"))

    # ---- vector registers ---------------------------------------------------------------------------

    def v(self, number: int, ty: str = "<2 x i64>") -> Value:
        """All 128 bits of a vector register, as a type."""
        return self.bits(self.load_reg(f"v{number}", "<2 x i64>"), ty)

    def set_v(self, number: int, a: Value) -> None:
        """Write all 128 bits."""
        self.store_reg(f"v{number}", self.bits(a, "<2 x i64>"))

    def v_half(self, number: int, ty: str, upper: bool = False) -> Value:
        """The low (or high) 64 bits of a vector register, as a type."""
        return self.bits(self.extract(self.v(number), int(upper)), ty)

    def set_v_half(self, number: int, a: Value) -> None:
        """Write the low 64 bits and clear the rest."""
        self.set_v(number, self.insert(Value("<2 x i64>", "zeroinitializer"), self.bits(a, "i64"), 0))

    def vec(self, number: int, element: str, q: int) -> Value:
        """A vector register of 64 (q=0) or 128 (q=1) bits split into elements."""
        lanes = (64 << q) // _width(element)
        ty = f"<{lanes} x {element}>"
        return self.v(number, ty) if q else self.v_half(number, ty)

    def set_vec(self, number: int, a: Value) -> None:
        """Write a 64- or 128-bit vector; a 64-bit one clears the upper half."""
        bits = lanes_of(a.ty) * _width(element_of(a.ty))
        self.set_v(number, a) if bits == 128 else self.set_v_half(number, a)

    def scalar(self, number: int, ty: str) -> Value:
        """The lowest element of a vector register."""
        return self.extract(self.v(number, f"<{128 // _width(ty)} x {ty}>"), 0)

    def set_scalar(self, number: int, a: Value) -> None:
        """Write the lowest element and clear the rest."""
        ty = f"<{128 // _width(a.ty)} x {a.ty}>"
        self.set_v(number, self.insert(Value(ty, "zeroinitializer"), a, 0))

    # ---- flags --------------------------------------------------------------------------------------

    def flag(self, name: str) -> Value:
        """One of the condition flags n, z, c, v."""
        return self.load_reg(f"f{name}", "i1")

    def set_flags(self, n: Value, z: Value, c: Value, v: Value) -> None:
        """Assign all four flags."""
        self.compare = None
        for name, flag in zip("nzcv", (n, z, c, v), strict=True):
            self.store_reg(f"f{name}", flag)

    def set_nzcv(self, bits: int) -> None:
        """Assign all four flags from a constant."""
        self.set_flags(*(Value("i1", "true" if bits >> shift & 1 else "false") for shift in (3, 2, 1, 0)))

    def condition(self, code: int) -> Value:
        """Whether a condition code holds."""
        if code >= 14:
            return Value("i1", "true")
        direct = self._direct_condition(code)
        return direct if direct is not None else self._flag_condition(code)

    def _direct_condition(self, code: int) -> Value | None:
        if self.compare is None:
            return None
        kind, a, b = self.compare
        if kind == "sub":
            names = ("eq", "ne", "uge", "ult", None, None, None, None, "ugt", "ule", "sge", "slt", "sgt", "sle")
            return self.icmp(names[code], a, b) if names[code] else None  # type: ignore[arg-type]
        names = ("oeq", "une", "uge", "olt", "olt", "uge", "uno", "ord", "ugt", "ole", "oge", "ult", "ogt", "ule")
        return self.fcmp(names[code], a, b)  # type: ignore[arg-type]

    def _flag_condition(self, code: int) -> Value:
        base, negate = code >> 1, code & 1
        true = Value("i1", "true")
        if base < 4:
            result = self.flag("zcnv"[base])
        elif base == 4:
            result = self.op("and", self.flag("c"), self.op("xor", self.flag("z"), true))
        else:
            result = self.icmp("eq", self.flag("n"), self.flag("v"))
            if base == 6:
                result = self.op("and", result, self.op("xor", self.flag("z"), true))
        return self.op("xor", result, true) if negate else result

    # ---- memory -------------------------------------------------------------------------------------

    def pointer(self, address: Value) -> Value:
        """Host pointer of a guest address."""
        if not self.flat:
            address = self.op("add", address, Value("i64", "%delta"))
        return self.value("ptr", f"inttoptr {address} to ptr")

    def load(self, address: Value, ty: str) -> Value:
        """Load from guest memory; any alignment."""
        return self.value(ty, f"load {ty}, {self.pointer(address)}, align 1")

    def store(self, address: Value, a: Value) -> None:
        """Store to guest memory; any alignment."""
        self.lines.append(f"  store {a}, {self.pointer(address)}, align 1")

    def add(self, a: Value, offset: int) -> Value:
        """A value plus a constant."""
        return a if offset == 0 else self.op("add", a, self.const(a.ty, offset))

    # ---- control ------------------------------------------------------------------------------------

    def start_block(self, pc: int) -> None:
        """Start the basic block of a guest address."""
        self._start(self.scope.label(pc))
        if self.counted is not None and pc in self.loop_heads:
            self._count_once()

    def _count_once(self) -> Value:
        base = self.value("i64", f"load i64, ptr {self.context_pointer(ctx.COUNTERS)}")
        address = self.op("add", base, self.const("i64", self.counted or 0))
        pointer = self.value("ptr", f"inttoptr {address} to ptr")
        count = self.add(self.value("i32", f"load i32, {pointer}"), 1)
        self.line(f"  store {count}, {pointer}")
        return count

    def _count_entry(self) -> list[str]:
        """Lines ahead of the first block: count, and ask for an optimised unit when the count is high."""
        lines, self.lines = self.lines, []
        busy, done = self.label(), self.label()
        hot = self.icmp("sge", self._count_once(), self.const("i32", ctx.BUSY))
        self.line(f"  br {hot}, label %{busy}, label %{done}")
        self.begin(busy)
        promote = self.value("ptr", f"load ptr, ptr {self.context_pointer(ctx.PROMOTE)}")
        self.line(f"  call void {promote.name}(ptr %ctx, i64 {self.counted})")
        self.line(f"  br label %{done}")
        self.begin(done)
        counted, self.lines = self.lines, lines
        return [line for line in counted if isinstance(line, str)]

    def _start(self, label: str) -> None:
        self.begin(label)
        self._forget()
        self._enter(Node(label=label))

    def _forget(self) -> None:
        self.compare = None
        self.rounded.clear()

    def _enter(self, node: Node) -> None:
        self.node = node
        self.nodes.append(node)

    def edge(self, pc: int) -> str:
        """Label of a branch target: a block of the unit, or an exit that continues elsewhere."""
        if pc in self.scope.blocks:
            self.node.successors.append(self.scope.label(pc))
            return self.scope.label(pc)
        label = self.label()
        self._exits.append((label, pc, self.node))
        return label

    def goto(self, pc: int) -> None:
        """Unconditional branch."""
        self.line(f"  br label %{self.edge(pc)}")
        self._finish_exits()

    def branch(self, condition: Value, taken: int, otherwise: int) -> None:
        """Conditional branch."""
        self.line(f"  br {condition}, label %{self.edge(taken)}, label %{self.edge(otherwise)}")
        self._finish_exits()

    def _finish_exits(self) -> None:
        exits, self._exits = self._exits, []
        for label, pc, source in exits:
            self.begin(label)
            node = Node()
            source.followers.append(node)
            self._enter(node)
            self.tail(self.const("i64", pc))

    # ---- leaving the unit ---------------------------------------------------------------------------

    def sync_out(self, flags: bool) -> None:
        """Mark where the changed registers go to the context (the lines are added when the unit is complete)."""
        self.node.synchronised = True
        self.node.ignored = 0 if flags else FLAG_MASK
        self.lines.append(("out", self.node))

    def sync_in(self) -> None:
        """Mark where the registers that matter come back from the context."""
        self._forget()
        node = Node()
        self.node.followers.append(node)
        self._enter(node)
        self.lines.append(("in", node))

    def context_pointer(self, offset: int) -> str:
        """Pointer to a field of the context."""
        return self.value("ptr", f"getelementptr i8, ptr %ctx, i64 {offset}").name

    def target(self, address: Value) -> str:
        """Host function of a guest address, from the table of compiled code."""
        self.lines.append(f"  store {address}, ptr {self.context_pointer(ctx.PC)}")
        if address.name.isdigit():  # the table has an entry for every static target, if only one that compiles it
            self.direct.add(int(address.name))
            return self._entry(address).name
        fast, slow, found, inside = (self.label() for _ in range(4))
        offset = self.add(address, -ctx.LOW)
        index = self.call("i64", "llvm.fshr.i64", offset, offset, self.const("i64", 2))
        valid = self.icmp("ult", index, self.const("i64", ctx.SPAN >> 2))
        self.line(f"  br {valid}, label %{inside}, label %{slow}, !prof !0")
        self.begin(inside)
        known = self._entry(address)
        present = self.value("i1", f"icmp ne {known}, null")
        self.line(f"  br {present}, label %{fast}, label %{slow}, !prof !0")
        self.begin(slow)
        resolve = self.value("ptr", f"load ptr, ptr {self.context_pointer(ctx.RESOLVE)}")
        compiled = self.value("ptr", f"call ptr {resolve.name}(ptr %ctx, {address})")
        self.line(f"  br label %{found}")
        self.begin(fast)
        self.line(f"  br label %{found}")
        self.begin(found)
        return self.value("ptr", f"phi ptr [ {known.name}, %{fast} ], [ {compiled.name}, %{slow} ]").name

    def _entry(self, address: Value) -> Value:
        table = self.value("i64", f"load i64, ptr {self.context_pointer(ctx.TABLE)}, !invariant.load !1")
        slot = self.op("add", table, self.op("shl", address, self.const("i64", 1)))
        return self.value("ptr", f"load ptr, {self.value('ptr', f'inttoptr {slot} to ptr')}")

    def leave(self, address: Value) -> None:
        """Return from the unit with the guest address to continue at, or from an inlined function to its caller."""
        if self.scope.back is not None:
            self._leave_inlined(address, self.scope.back)
            return
        self.sync_out(flags=False)
        self.line(f"  ret {address}")

    def _leave_inlined(self, address: Value, back: str) -> None:
        """Go on after the call if that is where the function returns to."""
        elsewhere, source = self.label(), self.node
        source.successors.append(back)
        same = self.icmp("eq", address, self.const("i64", self.scope.returns_to))
        self.line(f"  br {same}, label %{back}, label %{elsewhere}, !prof !0")
        self.begin(elsewhere)
        node = Node()
        source.followers.append(node)
        self._enter(node)
        self.sync_out(flags=False)
        self.line(f"  ret {address}")

    def tail(self, address: Value) -> None:
        """Continue at a guest address outside the unit."""
        self.sync_out(flags=True)
        result = self.value("i64", f"musttail call i64 {self.target(address)}(ptr %ctx)")
        self.line(f"  ret {result}")

    def guest_call(self, address: Value, back: int) -> None:
        """Call a guest function that returns to `back`; another return address (an exception) leaves the unit."""
        self.set_x(30, self.const("i64", back))
        self.sync_out(flags=False)
        self._expect(self.value("i64", f"call i64 {self.target(address)}(ptr %ctx)"), back)

    @contextmanager
    def inlined(self, entry: int, blocks: frozenset[int], back: int, register: int | None = None) -> Iterator[None]:
        """A call of a function whose blocks are emitted inside the `with`; it returns to `back`.

        register: the call is indirect, and a call unless this register has the address of the function.
        """
        joined = self._unless_other(entry, back, register) if register is not None else ""
        self.set_x(30, self.const("i64", back))
        outer, after = self.scope, self.label()
        self.scope = Scope(f".{after}", blocks, after, back)
        self.line(f"  br label %{self.edge(entry)}")
        yield
        self.scope = outer
        self._start(after)
        if joined:
            self._join(joined)
            self._start(joined)

    def _unless_other(self, entry: int, back: int, register: int) -> str:
        """Call what the register points to unless that is `entry`; returns the label that follows both ways."""
        address = self.x(register)
        expected, other, joined = self.label(), self.label(), self.label()
        self.node.successors += [expected, other]
        same = self.icmp("eq", address, self.const("i64", entry))
        self.line(f"  br {same}, label %{expected}, label %{other}, !prof !0")
        self._start(other)
        self.guest_call(self.x(register), back)
        self._join(joined)
        self._start(expected)
        return joined

    def _join(self, label: str) -> None:
        self.node.successors.append(label)
        self.line(f"  br label %{label}")

    def note_target(self, pc: int, register: int) -> None:
        """Remember where the indirect call at `pc` goes, for `TranslatedCpu.target_seen`."""
        place = self.op("add", self.value("i64", f"load i64, ptr {self.context_pointer(ctx.COUNTERS)}"), self.const("i64", pc))
        word = self.op("lshr", self.add(self.x(register), -ctx.LOW), self.const("i64", 2))
        self.line(f"  store {self.cast('trunc', word, 'i32')}, {self.value('ptr', f'inttoptr {place} to ptr')}")

    def stop(self, pc: int) -> None:
        """Let the emulator fail at the instruction at `pc`."""
        self.single_step(pc)
        self.line(f"  ret i64 {ctx.STOPPED}")

    def single_step(self, pc: int) -> None:
        """Let the emulator execute the instruction at `pc`."""
        self.sync_out(flags=True)
        step = self.value("ptr", f"load ptr, ptr {self.context_pointer(ctx.STEP)}")
        self._expect(self.value("i64", f"call i64 {step.name}(ptr %ctx, i64 {pc})"), pc + 4)

    def _expect(self, result: Value, pc: int) -> None:
        same = self.icmp("eq", result, self.const("i64", pc))
        other, same_label = self.label(), self.label()
        self.line(f"  br {same}, label %{same_label}, label %{other}, !prof !0")
        self.begin(other)
        self.line(f"  ret {result}")
        self.begin(same_label)
        self.sync_in()

    # ---- the finished unit --------------------------------------------------------------------------

    def finish(self, name: str, entry: int) -> str:
        """Text of the module."""
        solve(self.nodes)
        first = next(node for node in self.nodes if node.label == self.scope.label(entry))
        used = 0
        for node in self.nodes:
            used |= node.needed | node.dirty
        head = [f"define i64 @{name}(ptr noalias %ctx) nounwind {{"]
        if not self.flat:
            head.append(f"  %deltap = getelementptr i8, ptr %ctx, i64 {ctx.DELTA}")
            head.append("  %delta = load i64, ptr %deltap")
        head += [f"  %{register.name} = alloca {register.ty}" for register in REGISTERS.values() if used & register.bit]
        if self.counted is not None:
            head += self._count_entry()
        head += self._transfer("in", first.needed) + [f"  br label %{self.scope.label(entry)}"]
        body: list[str] = []
        for line in self.lines:
            if isinstance(line, str):
                body.append(line)
            else:
                kind, node = line
                body += self._transfer(kind, node.needed if kind == "in" else node.dirty & ~node.ignored)
        declarations = list(self.declarations.values())
        notes = ['!0 = !{!"branch_weights", i32 1000, i32 1}', "!1 = !{}"]
        return "\n".join([*declarations, *head, *body, "}", *notes, ""])

    def _transfer(self, kind: str, mask: int) -> list[str]:
        out = []
        for register in REGISTERS.values():
            if mask & register.bit:
                self._count += 1
                at, value = f"%t{self._count}", f"%u{self._count}"
                source, target = (f"%{register.name}", at) if kind == "out" else (at, f"%{register.name}")
                out += [
                    f"  {at} = getelementptr i8, ptr %ctx, i64 {register.offset}",
                    f"  {value} = load {register.ty}, ptr {source}",
                    f"  store {register.ty} {value}, ptr {target}",
                ]
        return out


def _width(element: str) -> int:
    return {"half": 16, "float": 32, "double": 64}.get(element) or int(element[1:])
