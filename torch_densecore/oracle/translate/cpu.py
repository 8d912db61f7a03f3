"""The translated CPU: stands in for the emulator, runs guest code as host code and keeps the emulator for the rest."""

from __future__ import annotations

import atexit
import bisect
import ctypes
import hashlib
import platform
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import unicorn
from unicorn import arm64_const as arm

from .. import memory as layout
from ..cache import oracle_dir, stale
from . import context as ctx
from . import runtime, unit
from .arena import arena, entry, reserve
from .bits import sign_extend
from .cache import UnitCache, translator_version
from .functions import function_starts
from .lending import LentMemory
from .link import Blob, LinkError, compile_text, enabled_features, features
from .results import ResultMemory

if TYPE_CHECKING:
    from ..machine import Machine

_ALIGN = 64
_PROT_RW = 3
_WRITE_FPCR = 0xD51B4400  # MSR FPCR, Xt
_FPCR_MODES = 1 << 26 | 1 << 24 | 3 << 22 | 1 << 19  # alternative half, flush to zero, rounding mode, flush halves
_STALE = 7 * 24 * 3600.0
_PROMOTE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)
_RESOLVE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
_START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint64] * 4)


def _register_map() -> dict[int, tuple[int, int]]:
    """Emulator register number to context offset and size."""
    out = {getattr(arm, f"UC_ARM64_REG_X{i}"): (ctx.X + 8 * i, 8) for i in range(31)}
    out[arm.UC_ARM64_REG_SP] = (ctx.X + 8 * 31, 8)
    out[arm.UC_ARM64_REG_PC] = (ctx.PC, 8)
    for bank, size in (("V", 16), ("Q", 16), ("D", 8), ("S", 4)):
        out.update({getattr(arm, f"UC_ARM64_REG_{bank}{i}"): (ctx.V + 16 * i, size) for i in range(32)})
    return out


_REGISTERS = _register_map()
_SYNCED = [getattr(arm, f"UC_ARM64_REG_X{i}") for i in range(31)] + [arm.UC_ARM64_REG_SP]
_VECTORS = [getattr(arm, f"UC_ARM64_REG_V{i}") for i in range(32)]


@dataclass
class Statistics:
    """What the translator did in this process."""

    compiled: int = 0
    promoted: int = 0  # compiled again with optimisation
    loaded: int = 0  # from the cache
    instructions: int = 0  # guest instructions compiled
    seconds: float = 0.0  # compiling
    emulated: dict[int, tuple[int, str]] = field(default_factory=dict)  # address: word, reason
    failed: dict[int, str] = field(default_factory=dict)  # units that LLVM refused: address, reason
    steps: Counter[int] = field(default_factory=Counter)  # address: times executed by the emulator
    handed_over: Counter[int] = field(default_factory=Counter)  # address: times that the emulator went on from there


class TranslatedCpu:
    """Has the emulator's interface, as far as the machine uses it.

    While `translating` is false every request goes to the emulator.  Both work on the same guest memory, so one
    machine can compare them.
    """

    def __init__(self, machine: Machine, cache: Path | None = None) -> None:
        self.machine, self.emulator = machine, machine.uc
        self.translating = False
        self.statistics = Statistics()
        self.flat = machine.memory.host_base == layout.LOW
        self._hooks: dict[int, list[Callable[..., None]]] = {}
        self._units: dict[int, int] = {}
        self._starts: list[int] = []
        self._lent: LentMemory | None = None
        self.results: ResultMemory | None = None
        self._space = reserve(2 * ctx.SPAN, _PROT_RW)
        self._table = self._space - 2 * ctx.LOW
        self._counters = reserve(ctx.SPAN, _PROT_RW) - ctx.LOW
        self._place = arena().place
        self._block = ctypes.create_string_buffer(ctx.SIZE + _ALIGN)
        self.context = (ctypes.addressof(self._block) + _ALIGN - 1) // _ALIGN * _ALIGN
        self._wire()
        self._cache = UnitCache(cache)
        reference = weakref.ref(self._cache)
        atexit.register(lambda: (kept := reference()) is not None and kept.flush())

    def _wire(self) -> None:
        """Compile the runtime functions and put the addresses that units need into the context."""
        self._callbacks = (_RESOLVE(self._on_resolve), _RESOLVE(self._on_step), _RESOLVE(self._on_hook))
        self._promote = _PROMOTE(self._on_promote)
        addresses = (ctypes.cast(f, ctypes.c_void_p).value for f in (*self._callbacks, self._promote))
        resolve, step, hook, promote = addresses
        self._trap = self._place(compile_text(runtime.trap()))
        self._lazy = self._place(compile_text(runtime.lazy()))
        self._stopped = self._place(compile_text(runtime.stopped()))
        self._hooked = self._place(compile_text(runtime.hooked()))
        body, start = self._place(compile_text(runtime.start())), entry()
        self._start = _START(start)
        handler, data = self._trap_handler(start)
        delta = self.machine.memory.host_base - layout.LOW
        fields = {
            ctx.TABLE: self._table, ctx.BODY: body, ctx.COUNTERS: self._counters, ctx.PROMOTE: promote,
            ctx.DELTA: delta, ctx.RESOLVE: resolve, ctx.STEP: step, ctx.HOOK: hook,
            ctx.HANDLER: handler, ctx.HANDLER_DATA: data,
        }  # fmt: skip
        for offset, value in fields.items():
            self._set64(offset, value or 0)

    def _trap_handler(self, start: int) -> tuple[int, int]:
        """The machine's trap handler, reading and writing registers in the context."""
        native = self.machine.native
        if native is None:
            return ctypes.cast(self.machine._callback, ctypes.c_void_p).value or 0, 0
        block = self._native = type(native.runtime).from_buffer_copy(native.runtime)
        block.reg_read = self._place(compile_text(runtime.register_access(write=False)))
        block.reg_write = self._place(compile_text(runtime.register_access(write=True)))
        block.start = start
        block.sp, block.lr, block.fp, block.pc = ctx.X + 8 * 31, ctx.X + 8 * 30, ctx.X + 8 * 29, ctx.PC
        block.x[:] = [ctx.X + 8 * i for i in range(len(block.x))]
        for bank in (block.s, block.d, block.v):
            bank[:] = [ctx.V + 16 * i for i in range(len(bank))]
        self._lent = LentMemory(self.machine.memory, self.emulator, (native.runtime, block))
        self.results = ResultMemory(self._lent, native.offers)
        return native.trap.value, ctypes.addressof(block)

    @property
    def handle(self) -> tuple[int, int]:
        """What the compiled helper's calls take: the runtime block and the CPU, of the emulator or of this one."""
        if self.translating:
            return ctypes.addressof(self._native), self.context
        return self.machine.native.address, self.emulator._uch  # type: ignore[union-attr]

    # ---- the emulator's interface ---------------------------------------------------------------------

    def reg_read(self, register: int) -> int:
        """Value of a register."""
        if not self.translating:
            return self.emulator.reg_read(register)
        offset, size = _REGISTERS[register]
        return int.from_bytes(ctypes.string_at(self.context + offset, size), "little")

    def reg_write(self, register: int, value: int) -> None:
        """Write a register; a narrow vector register clears the rest."""
        if not self.translating:
            self.emulator.reg_write(register, value)
            return
        offset, size = _REGISTERS[register]
        width = 16 if ctx.V <= offset < ctx.FLAGS else size
        ctypes.memmove(self.context + offset, value.to_bytes(width, "little"), width)

    def hook_add(self, kind: int, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Hooks of single addresses work in both modes, others in the emulator alone."""
        begin, end = kwargs.get("begin", 1), kwargs.get("end", 0)
        if kind == unicorn.UC_HOOK_CODE and begin == end:
            self._hooks.setdefault(begin, []).append(callback)
        return self.emulator.hook_add(kind, callback, *args, **kwargs)

    def mem_map_ptr(self, *args: Any) -> None:
        """Map host memory into the emulator; translated code sees it anyway."""
        self.emulator.mem_map_ptr(*args)

    def emu_stop(self) -> None:
        """Leave the running call."""
        if self.translating:
            self._set64(ctx.STOP, 1)
        else:
            self.emulator.emu_stop()

    def emu_start(self, begin: int, until: int, timeout: int = 0, count: int = 0) -> None:
        """Run from `begin` until control reaches `until`."""
        if not self.translating or count:
            self.emulator.emu_start(begin, until, timeout, count)
            return
        if status := self._start(self.context, begin, until, 0, 0):
            raise unicorn.UcError(status)

    # ---- memory of the host that guest code may use ---------------------------------------------------

    def lend(self, address: int, size: int) -> int | None:
        """Let the running call use host memory; returns its guest address, None if it has to be copied."""
        return self._lent.lend(address, size) if self.translating and self._lent is not None else None

    def reclaim(self) -> None:
        """End what `lend` began."""
        if self._lent is not None and self.results is not None:
            self._lent.reclaim()
            self.results.settle()

    # ---- callbacks from translated code ---------------------------------------------------------------

    def _fail(self, error: BaseException) -> int:
        self.machine.failure = error
        self._set64(ctx.STOP, 1)
        return self._stopped

    def _on_resolve(self, _: int, pc: int) -> int:
        try:
            return self._resolve(pc)
        except BaseException as error:  # carried across the compiled frames
            return self._fail(error)

    def _on_hook(self, _: int, pc: int) -> int:
        try:
            for callback in self._hooks[pc]:
                callback(self, pc, 4, None)
            return self._unit(pc)
        except BaseException as error:
            return self._fail(error)

    def _on_promote(self, _: int, pc: int) -> None:
        ctypes.c_int32.from_address(self._counters + pc).value = -(1 << 31)
        try:
            self._units[pc] = self._install_unit(*self._compile(pc, optimise=True))
            if pc not in self._hooks:
                self._slot(pc).value = self._units[pc]
            self.statistics.promoted += 1
        except Exception as error:  # the unit stays as it is
            self.statistics.failed[pc] = str(error)

    def _on_step(self, _: int, pc: int) -> int:
        try:
            return self._step(pc)
        except BaseException as error:
            self._fail(error)
            return ctx.STOPPED

    def _step(self, pc: int) -> int:
        """One instruction in the emulator, or the rest of the run if the instruction changes how numbers are rounded."""
        self.statistics.steps[pc] += 1
        word = self.machine.memory.r32(pc)
        if word & ~0x1F == _WRITE_FPCR and self._x(word & 0x1F) & _FPCR_MODES:
            return self._hand_over(pc)
        self._to_emulator()
        self.emulator.emu_start(pc, 0, 0, 1)
        self._from_emulator()
        return self.emulator.reg_read(arm.UC_ARM64_REG_PC)

    def _hand_over(self, pc: int) -> int:
        """Emulate from `pc` to the end of the run, for translated code knows the default rounding alone.

        The guest's frames are all in guest memory. The address returned is the one where the run ends, at which no frame of
        the host goes on.
        """
        self.statistics.handed_over[pc] += 1
        self._to_emulator()
        with self.emulating():
            self.emulator.emu_start(pc, layout.STUB_BASE)
        self._from_emulator()
        if self.emulator.reg_read(arm.UC_ARM64_REG_FPCR) & _FPCR_MODES:
            self.emulator.reg_write(arm.UC_ARM64_REG_FPCR, 0)
            where = self.machine.describe(pc)
            raise NotImplementedError(f"{where} changes the rounding or flushes subnormals for good: use Oracle(translate=False)")
        if self.machine.failure is not None:
            raise self.machine.failure
        return layout.STUB_BASE

    @contextmanager
    def emulating(self) -> Iterator[None]:
        """Emulate for a while."""
        self.translating = False
        try:
            yield
        finally:
            self.translating = True

    def _to_emulator(self) -> None:
        """Copy the CPU's state to the emulator, which may then go on."""
        if self._lent is not None:
            self._lent.show()
        for register in (*_SYNCED, *_VECTORS):
            self.emulator.reg_write(register, self.reg_read(register))
        flags = ctypes.string_at(self.context + ctx.FLAGS, 4)
        self.emulator.reg_write(arm.UC_ARM64_REG_NZCV, sum(flag << 31 - index for index, flag in enumerate(flags)))

    def _from_emulator(self) -> None:
        for register in (*_SYNCED, *_VECTORS):
            self.reg_write(register, self.emulator.reg_read(register))
        word = self.emulator.reg_read(arm.UC_ARM64_REG_NZCV)
        ctypes.memmove(self.context + ctx.FLAGS, bytes(word >> 31 - index & 1 for index in range(4)), 4)

    # ---- units ----------------------------------------------------------------------------------------

    def _resolve(self, pc: int) -> int:
        """Host code of a guest address, entered in the table."""
        if layout.TRAP_BASE <= pc < layout.TRAP_BASE + layout.TRAP_SIZE:
            code = self._trap
        elif pc in self._hooks:
            code = self._hooked
        else:
            code = self._unit(pc)
        self._slot(pc).value = code
        return code

    def _unit(self, pc: int) -> int:
        if pc not in self._units:
            known = self._cache.get(pc)
            self.statistics.loaded += known is not None
            self._units[pc] = self._install_unit(*(known or self._compile(pc, optimise=False)))
        return self._units[pc]

    def _install_unit(self, blob: Blob, facts: dict[str, Any]) -> int:
        """Place a unit's code; every static target gets an entry in the table."""
        for at, word, reason in facts["emulated"]:
            self.statistics.emulated[at] = (word, reason)
        for target in facts["direct"]:
            slot = self._slot(target)
            slot.value = slot.value or self._lazy
        return self._place(blob)

    def _slot(self, pc: int) -> ctypes.c_uint64:
        return ctypes.c_uint64.from_address(self._table + 2 * pc)

    def _compile(self, pc: int, optimise: bool) -> tuple[Blob, dict[str, Any]]:
        start = time.perf_counter()
        code = unit.Code(
            self.machine.memory.r32, self._extent, self._stub_target, self._hooks, self.target_seen, enabled_features()
        )
        translated = unit.Translator(code, self.flat, optimise).translate(pc)
        level = 2 if optimise else 0
        try:
            blob = compile_text(translated.text, level)
        except (LinkError, RuntimeError) as error:  # RuntimeError is what LLVM's parser raises
            self.statistics.failed[pc] = str(error)
            translated = unit.Translator(code, self.flat, optimise, emulate=True).translate(pc)
            blob = compile_text(translated.text, 0)
        self.statistics.compiled += 1
        self.statistics.instructions += translated.instructions
        self.statistics.seconds += time.perf_counter() - start
        facts = {"emulated": translated.emulated, "direct": translated.direct}
        if pc not in self.statistics.failed:
            self._cache.put(pc, level, blob, facts)
        return blob, facts

    def target_seen(self, pc: int) -> int | None:
        """The function that an indirect call went to last, as far as a unit that is not optimised has noted it."""
        target = ctx.LOW + 4 * ctypes.c_uint32.from_address(self._counters + pc).value
        try:
            return target if self._extent(target)[0] == target else None
        except layout.GuestFault:
            return None

    def _stub_target(self, pc: int) -> int | None:
        """Where the veneer of an import leads: its pointer is constant once the images are loaded."""
        for low, high in self._stubs:
            if low <= pc < high:
                adrp, ldr, br = (self.machine.memory.r32(pc + offset) for offset in (0, 4, 8))
                if adrp & 0x9F00001F != 0x90000010 or ldr & 0xFFC003FF != 0xF9400210 or br != 0xD61F0200:
                    return None
                page = sign_extend((adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3, 21) << 12
                return self.machine.memory.r64((pc & ~0xFFF) + page + (ldr >> 10 & 0xFFF) * 8)
        return None

    @property
    def _stubs(self) -> list[tuple[int, int]]:
        sections = (
            (image.base, section) for image in self.machine.images for section in image.find_sections("__stubs")
        )
        return [(base + section.addr, base + section.addr + section.size) for base, section in sections]

    def _extent(self, pc: int) -> tuple[int, int]:
        """The function that contains an address."""
        if layout.STUB_BASE <= pc < layout.STUB_BASE + layout.STUB_SIZE:
            return layout.STUB_BASE, layout.STUB_BASE + layout.STUB_SIZE
        for image in self.machine.images:
            if image.base <= pc < image.base + image.vmsize:
                break
        else:
            caller = self.machine.describe(self.machine.x(30))
            raise layout.GuestFault(f"call of {pc:#x}, which is not code (from {caller})")
        if not self._starts:
            self._starts = sorted(start for image in self.machine.images for start in function_starts(image))
        index = bisect.bisect_right(self._starts, pc)
        return self._starts[index - 1], self._starts[index]

    def _x(self, number: int) -> int:
        return ctypes.c_uint64.from_address(self.context + ctx.X + 8 * number).value if number != 31 else 0

    def _set64(self, offset: int, value: int) -> None:
        ctypes.c_uint64.from_address(self.context + offset).value = value


def install(machine: Machine, wheel_digest: str) -> TranslatedCpu:
    """Make a booted machine run translated code; its compiled units are kept in the cache."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise NotImplementedError(f"translation needs an x86-64 host, not {platform.machine()}")
    folder = oracle_dir() / "units"
    flat = machine.memory.host_base == layout.LOW
    host = hashlib.sha256(f"{features()}|{flat}".encode()).hexdigest()[:12]
    for old in stale(folder, "*.sqlite*", _STALE):
        old.unlink(missing_ok=True)
    cpu = TranslatedCpu(machine, folder / f"{wheel_digest[:16]}-{translator_version()}-{host}.sqlite")
    machine.uc = cpu
    cpu.translating = True
    return cpu
