"""The few functions around the units: the dispatch loop, traps, register access for host code."""

from __future__ import annotations

from . import context as ctx
from .emit import Emitter, Value

_CTX = "ptr %ctx"


def _module(e: Emitter, signature: str) -> str:
    lines = [line for line in e.lines if isinstance(line, str)]
    notes = ['!0 = !{!"branch_weights", i32 1000, i32 1}', "!1 = !{}"]
    return "\n".join([*e.declarations.values(), f"define {signature} nounwind {{", *lines, "}", *notes, ""])


def _load(e: Emitter, ty: str, offset: int) -> Value:
    return e.value(ty, f"load {ty}, ptr {e.context_pointer(offset)}")


def start() -> str:
    """i32 (ctx*, i64 begin, i64 until, i64 timeout, i64 count): the emulator's start function.

    Runs units from `begin` until one continues at `until` or a hook stops the machine; the last two arguments are
    ignored.
    """
    e = Emitter(True, frozenset())
    e.begin("entry")
    stop = Value("ptr", e.context_pointer(ctx.STOP))
    e.line(f"  store i64 0, {stop}")
    e.line("  br label %loop")
    e.begin("loop")
    e.line("  %pc = phi i64 [ %begin, %entry ], [ %next, %again ]")
    pc = Value("i64", "%pc")
    e.line(f"  br {e.icmp('eq', pc, Value('i64', '%until'))}, label %done, label %go")
    e.begin("go")
    e.line(f"  br {e.icmp('ne', _load(e, 'i64', ctx.STOP), e.const('i64', 0))}, label %done, label %run")
    e.begin("run")
    function = e.target(pc)
    e.line(f"  %next = call i64 {function}({_CTX})")
    e.line("  br label %again")
    e.begin("again")
    e.line("  br label %loop")
    e.begin("done")
    e.line(f"  store {pc}, ptr {e.context_pointer(ctx.PC)}")
    e.line(f"  store i64 0, {stop}")
    e.line("  ret i32 0")
    return _module(e, f"i32 @start({_CTX}, i64 %begin, i64 %until, i64 %timeout, i64 %count)")


def trap() -> str:
    """i64 (ctx*): run the hook of an import and return to the caller."""
    e = Emitter(True, frozenset())
    handler, data, pc = _load(e, "ptr", ctx.HANDLER), _load(e, "ptr", ctx.HANDLER_DATA), _load(e, "i64", ctx.PC)
    e.line(f"  call void {handler.name}({_CTX}, {pc}, i32 4, {data})")
    stopped = e.icmp("ne", _load(e, "i64", ctx.STOP), e.const("i64", 0))
    back = _load(e, "i64", ctx.X + 8 * 30)
    e.line(f"  ret {e.select(stopped, e.const('i64', ctx.STOPPED), back)}")
    return _module(e, f"i64 @trap({_CTX})")


def lazy() -> str:
    """i64 (ctx*): compile the unit of the latest target and continue there."""
    return _through(ctx.RESOLVE, "lazy")


def hooked() -> str:
    """i64 (ctx*): run the hooks of the latest target, then its unit."""
    return _through(ctx.HOOK, "hooked")


def _through(field: int, name: str) -> str:
    e = Emitter(True, frozenset())
    callback, pc = _load(e, "ptr", field), _load(e, "i64", ctx.PC)
    unit = e.value("ptr", f"call ptr {callback.name}({_CTX}, {pc})")
    result = e.value("i64", f"musttail call i64 {unit.name}({_CTX})")
    e.line(f"  ret {result}")
    return _module(e, f"i64 @{name}({_CTX})")


def stopped() -> str:
    """i64 (ctx*): leave every frame."""
    return f"define i64 @stopped({_CTX}) nounwind {{\n  ret i64 {ctx.STOPPED}\n}}\n"


def register_access(write: bool) -> str:
    """i32 (ctx*, i32 offset, ptr value): the register interface of the emulator; registers are context offsets."""
    name = "write" if write else "read"
    source, target = ("%value", "%field") if write else ("%field", "%value")
    lines = [
        f"define i32 @{name}({_CTX}, i32 %offset, ptr %value) nounwind {{",
        "  %field = getelementptr i8, ptr %ctx, i32 %offset",
        f"  %place = sub i32 %offset, {ctx.V}",
        f"  %wide = icmp ult i32 %place, {ctx.FLAGS - ctx.V}",
        "  br i1 %wide, label %vector, label %word",
    ]
    for label, ty in (("word", "i64"), ("vector", "i128")):
        lines += [
            f"{label}:",
            f"  %{label}v = load {ty}, ptr {source}, align 1",
            f"  store {ty} %{label}v, ptr {target}, align 1",
            "  ret i32 0",
        ]
    return "\n".join([*lines, "}", ""])
