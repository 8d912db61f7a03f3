"""Runs one instruction on many register states in the emulator and in translated code.

Both execute the same guest program: for each record load the registers, execute the instruction, store the registers.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import unicorn
from unicorn import arm64_const as arm

from torch_densecore.oracle.translate import context as ctx
from torch_densecore.oracle.translate import link, unit
from torch_densecore.oracle.translate.bits import TABLE, Pattern

WINDOW, WINDOW_SIZE = 256, 512
# bytes of a record: x1..x5, sp, nzcv, x0; then 11 vectors; from WINDOW on, for instructions that access it, memory
SMALL, LARGE = WINDOW, WINDOW + WINDOW_SIZE
CHUNK = 8192  # records that are run at once
X_SLOTS, V_SLOTS = (1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 31)
V_BASE = 64
MEMORY_ROWS = {
    "load_store_unsigned", "load_store_indexed", "load_store_register", "load_store_pair", "load_store_ordered",
    "compare_and_swap", "atomic", "multiple", "multiple_post", "single", "single_post",
}  # fmt: skip
BRANCH_ROWS = {"branch_conditional", "compare_branch", "test_branch"}
EXCLUDED = {"branch_register", "branch_immediate", "breakpoint_instruction", "load_literal", "read_fpcr"}
_CODE_SIZE = 1 << 16


def _ldr_x(rt: int, offset: int) -> int:
    return 0xF9400000 | offset // 8 << 10 | 20 << 5 | rt


def _str_x(rt: int, offset: int) -> int:
    return 0xF9000000 | offset // 8 << 10 | 20 << 5 | rt


def _ldr_q(rt: int, offset: int) -> int:
    return 0x3DC00000 | offset // 16 << 10 | 20 << 5 | rt


def _str_q(rt: int, offset: int) -> int:
    return 0x3D800000 | offset // 16 << 10 | 20 << 5 | rt


def record_size(row: Pattern) -> int:
    """Bytes of a record for an instruction."""
    return LARGE if row.name in MEMORY_ROWS else SMALL


def program(word: int, row: Pattern, before: Sequence[int] = ()) -> list[int]:
    """The guest program for one instruction, and others before it; x20 is the record, x21 the number of records."""
    load = [_ldr_x(n, 8 * i) for i, n in enumerate(X_SLOTS)] + [_ldr_x(9, 40), _ldr_x(10, 48)]
    load += [0x9100013F, 0xD51B420A]  # mov sp, x9; msr nzcv, x10
    load += [_ldr_q(n, V_BASE + 16 * i) for i, n in enumerate(V_SLOTS)]
    store = [_str_x(n, 8 * i) for i, n in enumerate(X_SLOTS)]
    store += [0x910003E9, _str_x(9, 40)]  # mov x9, sp
    for position, code in ((31, 4), (30, 0), (29, 2), (28, 6)):  # n, z, c, v: cset w11; lsl; gather into x10
        shift = (64 - position) << 16 | (63 - position) << 10
        store += [0x1A9F07E0 | (code ^ 1) << 12 | 11, 0xD3400000 | shift | 11 << 5 | 11]
        store += [0xAA0B014A if position != 31 else 0xAA0B03EA]  # orr x10, x10, x11 (mov for the first)
    store += [_str_x(10, 48)] + [_str_q(n, V_BASE + 16 * i) for i, n in enumerate(V_SLOTS)]
    body = [word, 0x91000484] if row.name in BRANCH_ROWS else [word]  # add x4, x4, #1 is skipped by a taken branch
    loop = [*load, *before, *body, *store]
    loop += [0x91000294 | record_size(row) << 10, 0xF10006B5]  # add x20, x20, #size; subs x21, x21, #1
    loop.append(0x54000001 | (-len(loop) & 0x7FFFF) << 5)  # b.ne loop
    return loop + [0xD65F03C0]


@dataclass
class Outcome:
    """Records after the instruction, translated at each level, and why the translator left it to the emulator, if it did."""

    emulated: np.ndarray
    translated: dict[int, np.ndarray]
    left: str


class Harness:
    """An emulator and a translator over one block of host memory at its own address."""

    def __init__(
        self,
        records: int,
        levels: tuple[int, ...] = (0, 2),
        features: frozenset[str] = link.enabled_features(),
        before: Sequence[int] = (),
    ) -> None:
        self.records, self.levels, self.features, self.before = records, levels, features, before
        size = _CODE_SIZE + records * LARGE
        self._map = mmap.mmap(-1, (size + 0xFFFF) // 0x10000 * 0x10000)
        self._view = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        self.base = ctypes.addressof(self._view)
        self.data = self.base + _CODE_SIZE
        self.uc = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        self.uc.mem_map_ptr(self.base, len(self._map), unicorn.UC_PROT_ALL, self.base)
        self.uc.reg_write(arm.UC_ARM64_REG_CPACR_EL1, self.uc.reg_read(arm.UC_ARM64_REG_CPACR_EL1) | 3 << 20)
        self._code = mmap.mmap(-1, 1 << 20, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code_view = (ctypes.c_char * len(self._code)).from_buffer(self._code)
        self._context = ctypes.create_string_buffer(ctx.SIZE + 64)
        self.context = (ctypes.addressof(self._context) + 63) // 64 * 64
        self._counter = ctypes.c_int32()
        self._word = -1
        self._machine_code: dict[int, bytes] = {}
        self._left, self._length = "", 0

    def run(self, word: int, states: np.ndarray) -> Outcome:
        """Execute `word` on every record of `states` (uint8, records x bytes) in both."""
        if word != self._word:
            self._prepare(word)
        emulated = self._emulate(states)
        translated = {} if self._left else {level: self._translated(level, states) for level in self.levels}
        return Outcome(emulated, translated, self._left)

    def _prepare(self, word: int) -> None:
        """Write the guest program and translate it."""
        row = TABLE.find(word)
        assert row is not None
        words = program(word, row, self.before)
        code = struct.pack(f"<{len(words)}I", *words)
        ctypes.memmove(self.base, code, len(code))
        self.uc.ctl_remove_cache(self.base, self.base + len(code))
        self._word, self._length, self._left = word, len(code), ""
        for level in self.levels:
            guest = unit.Code(self._fetch, lambda _: (self.base, self.base + len(code)), features=self.features)
            translated = unit.Translator(guest, True, optimise=level > 0).translate(self.base)
            if translated.emulated:
                self._left = translated.emulated[0][2]
            else:
                self._machine_code[level] = link.compile_text(translated.text, level).code

    def _load(self, states: np.ndarray) -> None:
        raw = np.ascontiguousarray(states)
        ctypes.memmove(self.data, raw.ctypes.data, raw.nbytes)

    def _read(self, states: np.ndarray) -> np.ndarray:
        return np.frombuffer(ctypes.string_at(self.data, states.nbytes), np.uint8).reshape(states.shape)

    def _emulate(self, states: np.ndarray) -> np.ndarray:
        self._load(states)
        self.uc.reg_write(arm.UC_ARM64_REG_X20, self.data)
        self.uc.reg_write(arm.UC_ARM64_REG_X21, len(states))
        self.uc.emu_start(self.base, self.base + self._length - 4)
        return self._read(states)

    def _translated(self, level: int, states: np.ndarray) -> np.ndarray:
        self._load(states)
        code = self._machine_code[level]
        ctypes.memmove(ctypes.addressof(self._code_view), code, len(code))
        for number, value in ((20, self.data), (21, len(states))):
            ctypes.c_uint64.from_address(self.context + ctx.X + 8 * number).value = value
        self._counter.value = -(1 << 31)  # never busy
        counters = ctypes.addressof(self._counter) - self.base
        ctypes.c_int64.from_address(self.context + ctx.COUNTERS).value = counters
        ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(self._code_view))(self.context)
        return self._read(states)

    @staticmethod
    def _fetch(pc: int) -> int:
        return ctypes.c_uint32.from_address(pc).value


_SPECIAL32 = np.array(
    [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7FA00000, 1, 0x80000001, 0x007FFFFF, 0x00800000,
     0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0x4F000000,
     0x4EFFFFFF, 0xCF000000, 0xCF000001, 0x4F800000, 0x5F000000, 0xDF000000, 0x5F800000, 0x477FE000, 0x477FF000,
     0x38800000, 0x33000000, 0x33000001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F, 0x80, 0x7FFF, 0x8000, 0xFFFF, 0x4B000001],
    np.uint32,
)  # fmt: skip


def special64() -> np.ndarray:
    """The 64-bit values where something happens, as words."""
    singles = _SPECIAL32.view(np.float32)
    with np.errstate(all="ignore"):
        doubles = singles.astype(np.float64)
    edges = np.array([5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 3.4028235677973366e38, 1.4e-45, 7e-46,
                      9007199254740993.0, 9223372036854775808.0, 18446744073709551616.0, 4503599627370496.5, 65519.99,
                      65520.0, 2.98e-8, 0.5, 1.5, 2.5, -0.5, -1.5])  # fmt: skip
    integers = np.array(
        [0, 1, 2**63, 2**63 - 1, 2**64 - 1, 2**31, 2**32 - 1, 2**32, 0x7FF4 << 48, 0x7FF8 << 48], np.uint64
    )
    return np.concatenate([doubles.view(np.uint64), edges.view(np.uint64), integers])


def random_words(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """64-bit words: uniform, special, floats of moderate size in each precision, small integers, pairs of singles."""
    kinds = rng.integers(0, 8, shape)
    special = rng.choice(special64(), shape)
    singles = rng.choice(_SPECIAL32, (*shape, 2)).view(np.uint64)[..., 0]
    scaled = rng.standard_normal((*shape, 2)) * 2.0 ** rng.integers(-12, 13, (*shape, 2))
    floats = scaled.astype(np.float32).view(np.uint64)[..., 0]
    halves = (rng.standard_normal((*shape, 4)) * 2.0 ** rng.integers(-10, 11, (*shape, 4))).astype(np.float16)
    doubles = (rng.standard_normal(shape) * 2.0 ** rng.integers(-40, 41, shape)).view(np.uint64)
    small = rng.integers(-70, 70, shape).view(np.uint64)
    uniform = rng.integers(0, 2**64, shape, np.uint64)
    choices = [uniform, special, singles, floats, doubles, small, halves.view(np.uint64)[..., 0], uniform]
    return np.choose(kinds, choices)


@lru_cache(maxsize=16)
def _base_words(seed: int, records: int) -> np.ndarray:
    return random_words(np.random.default_rng(seed), (records, LARGE // 8))


def states(row: Pattern, word: int, records: int, data: int, seed: int) -> np.ndarray:
    """Random records for an instruction; address registers point into the record's own window."""
    rng = np.random.default_rng([seed, word])
    words = _base_words(seed, records)[:, : record_size(row) // 8].copy()
    words[:, 6] = rng.integers(0, 16, records).astype(np.uint64) << np.uint64(28)
    equal = rng.random(records) < 0.1
    words[equal, 1] = words[equal, 0]
    words[:, 5] = (words[:, 5] & np.uint64(0xFFFFF0)) + np.uint64(data)
    if row.name in MEMORY_ROWS:
        window = np.uint64(data) + np.arange(records, dtype=np.uint64) * np.uint64(LARGE) + np.uint64(WINDOW)
        fields = row.extract(word)
        shift = np.uint64(16) * rng.integers(0, 4, records).astype(np.uint64)
        address = window + shift + np.uint64(192) - np.uint64(_displacement(row, fields) % 2**64)
        words[:, 0] = words[:, 5] = address
        if row.name in ("load_store_register", "multiple_post", "single_post"):
            words[:, 1] = rng.integers(0, 4, records).astype(np.uint64)
        if row.name == "compare_and_swap":
            match = rng.random(records) < 0.5
            words[match, 1] = words[match, (WINDOW + 192) // 8]
            words[:, 0] = window + np.uint64(192)
            words[:, 5] = words[:, 0]
    return words.view(np.uint8)


def _displacement(row: Pattern, f) -> int:  # type: ignore[no-untyped-def]
    """Offset the instruction adds to its base before the access."""
    if row.name == "load_store_unsigned":
        return f.imm12 << (f.size | (f.opc & 2) << 1 if f.v else f.size)
    if row.name == "load_store_indexed" and f.mode != 1:
        return (f.imm9 ^ 0x100) - 0x100
    if row.name == "load_store_pair" and f.mode != 1:
        scale = 2 + f.opc if f.v else (3 if f.opc == 2 else 2)
        return ((f.imm7 ^ 0x40) - 0x40) << scale
    return 0


def differences(outcome: Outcome) -> np.ndarray:
    """Indices of the records that differ at any level, NaN payloads of any precision aside."""
    found = [_different(outcome.emulated, translated) for translated in outcome.translated.values()]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _different(emulated: np.ndarray, translated: np.ndarray) -> np.ndarray:
    if np.array_equal(emulated.view(np.uint64), translated.view(np.uint64)):
        return np.zeros(0, np.int64)
    suspects = np.flatnonzero((emulated.view(np.uint64) != translated.view(np.uint64)).any(axis=1))
    a, b = emulated[suspects], translated[suspects]
    off = a != b
    for dtype, magnitude in ((np.uint16, 0x7C00), (np.uint32, 0x7F800000), (np.uint64, 0x7FF << 52)):
        limit = dtype(np.iinfo(dtype).max >> 1)
        both = (a.view(dtype) & limit > magnitude) & (b.view(dtype) & limit > magnitude)
        off &= ~np.repeat(both, np.dtype(dtype).itemsize, axis=1)
    return suspects[off.any(axis=1)]
