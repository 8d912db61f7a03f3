"""Stand-ins for the CUDA libraries that the aarch64 torch wheel is linked with, so that it loads on a machine without them."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

TOOLS = "aarch64-linux-gnu-"
KEPT = ("torch_python", "torch", "torch_cpu", "c10_cuda", "torch_global_deps", "c10", "shm")
WITHOUT_SYMBOLS = ("libcufile.so.0", "libnccl.so.2")
# A function returns the address of zeros. Whoever takes it for a reference may read and write there; as an error code it is one.
PREAMBLE = """
.bss
.balign 64
zeros: .zero 4096
.data
.balign 8
type: .quad _ZTVN10__cxxabiv117__class_type_infoE+16
 .quad 9f
9: .asciz "N9densecore4StubE"
.text
.balign 4
function: adrp x0, zeros
 add x0, x0, :lo12:zeros
 ret
"""
TYPE_INFO = """
.data
.balign 8
.globl {name}
.type {name}, %object
{name}: .quad _ZTVN10__cxxabiv117__class_type_infoE+16
 .quad 9f
9: .asciz "{plain}"
"""
VIRTUAL_TABLE = """
.data
.balign 8
.globl {name}
.type {name}, %object
{name}: .quad 0
 .quad type
 .rept 126
 .quad function
 .endr
"""
FUNCTION = """
.text
.globl {name}
.type {name}, %function
.set {name}, function
"""


def symbols(library: Path, which: str) -> list[str]:
    """Dynamic symbols of a library, with versions; which: "--defined-only" or "--undefined-only"."""
    done = subprocess.run([f"{TOOLS}nm", "-D", which, str(library)], capture_output=True, text=True)
    return [line.split()[-1] for line in done.stdout.splitlines() if line.strip()]


def missing_symbols(torch_lib: Path, root: Path) -> dict[str, set[str]]:
    """Version -> names that torch's libraries want and neither they nor the system define."""
    own = [torch_lib / f"lib{name}.so" for name in KEPT]
    own += [path for pattern in ("libarm_compute*", "libnvpl*", "libgfortran*") for path in torch_lib.glob(pattern)]
    system = [path for path in root.glob("**/aarch64-linux-gnu/*.so*") if path.is_file()] + [root / "usr/bin/python3.11"]
    defined = {name.partition("@")[0] for library in [*own, *system] for name in symbols(library, "--defined-only")}
    missing: dict[str, set[str]] = defaultdict(set)
    for library in own:
        for symbol in symbols(library, "--undefined-only"):
            name, _, version = symbol.partition("@")
            if name not in defined and not name.startswith(("_ITM_", "__gmon")):
                missing[version.lstrip("@")].add(name)
    return missing


def assembly(names: Iterable[str]) -> str:
    """Definitions of all names."""
    parts = [PREAMBLE]
    for name in sorted(names):
        form = TYPE_INFO if name.startswith("_ZTI") else VIRTUAL_TABLE if name.startswith("_ZTV") else FUNCTION
        parts.append(form.format(name=name, plain=name[4:]))
    return "".join(parts)


def make_library(path: Path, names: Iterable[str], version: str) -> None:
    """A shared library that defines `names`, under a symbol version if there is one."""
    source, versions = path.with_suffix(".s"), path.with_suffix(".map")
    source.write_text(assembly(names))
    command = [f"{TOOLS}gcc", "-shared", "-nostdlib", "-o", str(path), str(source), f"-Wl,-soname,{path.name}"]
    command += ["-Wl,--no-as-needed,--allow-shlib-undefined", "-L/usr/aarch64-linux-gnu/lib", "-l:libstdc++.so.6"]
    if version:
        versions.write_text(f"{version} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)


def make_stubs(torch_lib: Path, root: Path, folder: Path) -> None:
    """Writes the stand-ins to `folder` and in place of the wheel's libtorch_cuda.so."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    missing = missing_symbols(torch_lib, root)
    for version, names in missing.items():
        make_library(folder / (version or "libtorch_cuda.so"), names, version)
    for name in WITHOUT_SYMBOLS:
        make_library(folder / name, (), "")
    (torch_lib / "libtorch_cuda.so").write_bytes((folder / "libtorch_cuda.so").read_bytes())
