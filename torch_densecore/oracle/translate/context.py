"""Layout of the context: the guest CPU's state while translated code runs, and the hooks it calls."""

from __future__ import annotations

X = 0  # x0..x30, then sp as number 31
V = 256  # v0..v31, 16 bytes each
FLAGS = 768  # n, z, c, v: one byte each
FPCR = 772
PC = 776  # target of the latest transfer of control
TABLE = 784  # host address of the entry for guest address 0 in the table of compiled code
DELTA = 792  # host address minus guest address
RESOLVE = 800  # ptr (ctx*, i64 pc): compiles on first use
STEP = 808  # i64 (ctx*, i64 pc): one instruction in the emulator
STOP = 816  # set by a hook that failed: every frame returns
EXCLUSIVE = 824  # address and value of the exclusive monitor
HANDLER, HANDLER_DATA = 840, 848  # what a trap calls: void (ctx*, i64 pc, i32 size, data)
HOOK = 856  # ptr (ctx*, i64 pc): runs the hooks of an address, returns its unit
BODY, RECOVER = 864, 872  # the dispatch loop; the stack pointer to which a fault returns
COUNTERS = 880  # host address of the counter for guest address 0
PROMOTE = 888  # void (ctx*, i64 pc): compiles a busy unit with optimisation
SIZE = 1024

LOW = 0x1_0000_0000  # guest code lies in [LOW, LOW + SPAN)
SPAN = 0x5_2000_0000
BUSY = 20_000  # entries and loop iterations after which a unit is compiled with optimisation
STOPPED = 1  # returned as pc by frames that are being left
