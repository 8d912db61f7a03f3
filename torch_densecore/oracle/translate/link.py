"""From IR text to position-independent machine code in one piece: LLVM passes, code generation, section layout.

A unit refers to nothing outside itself except through the context, so after its own sections are joined the result
can be stored and copied anywhere. The exception are the math functions that LLVM calls on a host without the instruction
(`fma` without FMA): calls of those go through a jump whose target is filled in when the code is placed.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes.util import find_library
from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm

_PC32, _PLT32 = 2, 4
_ALLOC = 2
_NOBITS = 8
_RELA = 4


class LinkError(Exception):
    """The object needs something that a unit may not have."""


@lru_cache(maxsize=4)
def target_machine(level: int, cpu: str = "", cpu_features: str = "") -> llvm.TargetMachine:
    """Code generator for this host or another CPU; level 0 is several times faster and its code several times slower."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    return target.create_target_machine(
        cpu=cpu or llvm.get_host_cpu_name(),
        features=cpu_features or features(),
        opt=level,
        reloc="pic",
        codemodel="small",
    )


@lru_cache(maxsize=1)
def features() -> str:
    """Feature string of this host."""
    return llvm.get_host_cpu_features().flatten()


def enabled_features() -> frozenset[str]:
    """Names of the features that this host has."""
    return frozenset(name[1:] for name in features().split(",") if name.startswith("+"))


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, level: int) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    if level:
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
    else:
        passes.add_dead_code_elimination_pass()
        passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)


@dataclass(frozen=True)
class Blob:
    """Machine code, and the places of 8 bytes that take the address of a host function."""

    code: bytes
    externals: list[tuple[int, str]]


def compile_text(text: str, level: int = 2, machine: llvm.TargetMachine | None = None) -> Blob:
    """Machine code of a module with one defined function, which starts at offset 0."""
    module, machine = llvm.parse_assembly(text), machine or target_machine(level)
    _optimise(module, machine, level)
    return join(machine.emit_object(module))


def host_function(name: str) -> int:
    """Address of a function that generated code may call."""
    for library in (ctypes.CDLL(None), *_libraries()):
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        except AttributeError:
            continue
    raise LinkError(f"external symbol {name}")


@lru_cache(maxsize=1)
def _libraries() -> list[ctypes.CDLL]:
    return [ctypes.CDLL(path) for path in map(find_library, ("m", "gcc_s")) if path]


def join(elf: bytes) -> Blob:
    """Lay out the allocated sections of an ELF object, code first, and resolve the references between them."""
    sections = _sections(elf)
    order = sorted((s for s in sections if s["flags"] & _ALLOC and s["size"]), key=lambda s: s["name"] != b".text")
    order = [s for s in order if s["name"] != b".eh_frame"]
    image = bytearray()
    for section in order:
        if section["type"] == _NOBITS:
            raise LinkError("writable data")
        image += b"\xcc" * (-len(image) % max(section["align"], 16))
        section["at"] = len(image)
        image += elf[section["offset"] : section["offset"] + section["size"]]
    externals: list[tuple[int, str]] = []
    for rela in sections:
        if rela["type"] == _RELA and "at" in sections[rela["info"]]:
            _relocate(elf, image, sections, rela, externals)
    return Blob(bytes(image), externals)


def _sections(elf: bytes) -> list[dict]:
    table, count, names = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 60)
    out = []
    for index in range(count):
        name, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from(
            "<IIQQQQIIQQ", elf, table + 64 * index
        )
        out.append({"name": name, "type": kind, "flags": flags, "offset": offset, "size": size, "link": link,
                    "info": info, "align": align})  # fmt: skip
    strings = out[names]["offset"]
    for section in out:
        begin = strings + section["name"]
        section["name"] = elf[begin : elf.index(b"\0", begin)]
    return out


def _relocate(elf: bytes, image: bytearray, sections: list[dict], rela: dict, externals: list[tuple[int, str]]) -> None:
    home, symbols = sections[rela["info"]]["at"], sections[rela["link"]]
    for at in range(rela["offset"], rela["offset"] + rela["size"], 24):
        offset, info, addend = struct.unpack_from("<QQq", elf, at)
        name, _, _, index, value, _ = struct.unpack_from("<IBBHQQ", elf, symbols["offset"] + 24 * (info >> 32))
        if info & 0xFFFFFFFF not in (_PC32, _PLT32):
            raise LinkError(f"relocation {info & 0xFFFFFFFF}")
        place = home + offset
        if index == 0:
            begin = sections[symbols["link"]]["offset"] + name
            target = _jump_to(image, elf[begin : elf.index(0, begin)].decode(), externals)
        elif index < len(sections) and "at" in sections[index]:
            target = sections[index]["at"] + value
        else:
            raise LinkError(f"symbol in section {index}")
        struct.pack_into("<i", image, place, target + addend - place)


def _jump_to(image: bytearray, name: str, externals: list[tuple[int, str]]) -> int:
    """Append an indirect jump to a host function; returns its offset."""
    host_function(name)
    image += b"\xcc" * (-len(image) % 16)
    start = len(image)
    image += b"\xff\x25\x00\x00\x00\x00\x90\x90" + bytes(8)  # jmp [rip + 2 bytes of padding ahead of the address]
    struct.pack_into("<i", image, start + 2, 2)
    externals.append((start + 8, name))
    return start
