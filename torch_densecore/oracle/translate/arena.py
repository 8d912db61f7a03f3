"""Executable memory for translated code, one region per process, and what happens when code in it faults.

A bad guest pointer makes translated code touch memory that is not there. A signal handler sees that the fault is in the
arena and resumes in the entry function of the run, which returns an error code as the emulator would; faults elsewhere go
to the handler that was there before.
"""

from __future__ import annotations

import ctypes
import signal
import struct
from functools import lru_cache

from .. import memory as layout
from . import context as ctx
from .link import Blob, compile_text, host_function

SIZE = 1 << 30
FAULT = 6  # the emulator's code for a read of unmapped memory
_ALIGN = 64
_PROT_RWX = 7
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 4, 0x08000000, 0x40000000
# offsets in ucontext_t of x86-64 Linux: rdi, rsp, rip
_RDI, _RSP, _RIP = 104, 160, 168
_ACTION_SIZE = 152


class Arena:
    """Bump allocator of executable memory."""

    def __init__(self) -> None:
        self.start = self.top = reserve(SIZE, _PROT_RWX)
        self.end = self.start + SIZE

    def place(self, blob: Blob) -> int:
        """Copy code in and fill its references to host functions; returns its address."""
        at = self.top
        if at + len(blob.code) > self.end:
            raise MemoryError("the arena for translated code is full")
        ctypes.memmove(at, blob.code, len(blob.code))
        for offset, name in blob.externals:
            ctypes.c_uint64.from_address(at + offset).value = host_function(name)
        self.top = (at + len(blob.code) + _ALIGN - 1) // _ALIGN * _ALIGN
        return at


def reserve(size: int, protection: int) -> int:
    """Address of `size` bytes of lazily backed memory."""
    flags = layout._MAP_PRIVATE | layout._MAP_ANONYMOUS | layout._MAP_NORESERVE
    got = layout._libc.mmap(None, size, protection, flags, -1, 0)
    if got in (None, layout._FAILED):
        raise MemoryError(f"mmap of {size} bytes failed, errno {ctypes.get_errno()}")
    return got


@lru_cache(maxsize=1)
def arena() -> Arena:
    """The arena of this process."""
    return Arena()


@lru_cache(maxsize=1)
def entry() -> int:
    """Address of `i32 (ctx*, begin, until, timeout, count)`: calls the context's BODY, survives faults in it.

    Installs the signal handler. The callee-saved registers and the previous innermost run are on the stack; RECOVER in the
    context has the stack pointer to come back to, and a cell of the process has the context.
    """
    place = arena().place
    cell = place(Blob(bytes(8), []))
    code = _entry_code(cell)
    start = place(Blob(code, []))
    recover = start + code.index(_RECOVER_MARK) + len(_RECOVER_MARK)
    _install(place(compile_text(_handler(cell, recover, arena()))))
    return start


_RECOVER_MARK = bytes.fromhex("0f1f4055")  # a no-op that marks the place
_PUSHES = bytes.fromhex("55534154415541564157")  # push rbp, rbx, r12, r13, r14, r15
_POPS = bytes.fromhex("415f415e415d415c5b5d")


def _entry_code(cell: int) -> bytes:
    load_cell = b"\x48\xb8" + struct.pack("<Q", cell)  # mov rax, cell
    recover_slot = struct.pack("<i", ctx.RECOVER)
    head = (
        _PUSHES + load_cell + b"\xff\x30"  # push [rax]
        + b"\xff\xb7" + recover_slot  # push [rdi + RECOVER]
        + b"\x57"  # push rdi; the stack is 16-byte aligned now
        + b"\x48\x89\x38"  # mov [rax], rdi
        + b"\x48\x89\xa7" + recover_slot  # mov [rdi + RECOVER], rsp
        + b"\xff\x97" + struct.pack("<i", ctx.BODY)  # call [rdi + BODY]
    )  # fmt: skip
    tail = (
        b"\x5f"  # pop rdi
        + b"\x8f\x87" + recover_slot  # pop [rdi + RECOVER]
        + b"\x48\xb9" + struct.pack("<Q", cell) + b"\x8f\x01"  # mov rcx, cell; pop [rcx]
        + _POPS + b"\xc3"
    )  # fmt: skip
    failed = b"\xb8" + struct.pack("<i", FAULT)  # mov eax, FAULT
    back = len(_RECOVER_MARK) + len(failed) + 5 + len(tail)
    return head + tail + _RECOVER_MARK + failed + b"\xe9" + struct.pack("<i", -back)  # jmp tail


def _handler(cell: int, recover: int, region: Arena) -> str:
    """void (i32 signal, ptr info, ptr ucontext)."""
    lines = [
        "define void @handler(i32 %signal, ptr %info, ptr %uc) nounwind {",
        f"  %ripp = getelementptr i8, ptr %uc, i64 {_RIP}", "  %rip = load i64, ptr %ripp",
        f"  %offset = sub i64 %rip, {region.start}", f"  %inside = icmp ult i64 %offset, {SIZE}",
        f"  %cell = inttoptr i64 {cell} to ptr", "  %ctx = load i64, ptr %cell", "  %running = icmp ne i64 %ctx, 0",
        "  %ours = and i1 %inside, %running", "  br i1 %ours, label %resume, label %other",
        "resume:", f"  %slot = add i64 %ctx, {ctx.RECOVER}", "  %slotp = inttoptr i64 %slot to ptr",
        "  %rsp = load i64, ptr %slotp", f"  %rspp = getelementptr i8, ptr %uc, i64 {_RSP}", "  store i64 %rsp, ptr %rspp",
        f"  %rdip = getelementptr i8, ptr %uc, i64 {_RDI}", "  store i64 %ctx, ptr %rdip",
        f"  store i64 {recover}, ptr %ripp", "  ret void",
        "other:",  # the fault repeats under the previous action
        f"  %action = inttoptr i64 {_previous()} to ptr",
        f"  %sigaction = inttoptr i64 {host_function('sigaction')} to ptr",
        "  %status = call i32 %sigaction(i32 %signal, ptr %action, ptr null)", "  ret void", "}", "",
    ]  # fmt: skip
    return "\n".join(lines)


@lru_cache(maxsize=1)
def _previous() -> int:
    """Memory that keeps the signal's previous action."""
    return arena().place(Blob(bytes(_ACTION_SIZE), []))


def _install(handler: int) -> None:
    action = ctypes.create_string_buffer(_ACTION_SIZE)
    struct.pack_into("<Q", action, 0, handler)
    struct.pack_into("<i", action, 136, _SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER)
    if layout._libc.sigaction(int(signal.SIGSEGV), action, ctypes.c_void_p(_previous())):
        raise OSError("sigaction failed")
