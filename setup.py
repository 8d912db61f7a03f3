"""Builds the extension `torch_densecore._C`.

csrc/numerics/<family>/*.cpp is compiled once per instruction-set level with that level's flags (variant/ is not), everything else
once. With ninja (`pip install ninja`) a rebuild compiles only what changed; without it every source is compiled again.

MAX_JOBS limits the compiler processes. DENSECORE_SKIP="numerics/blas/*,aten/Blas.cpp" leaves sources out (patterns below csrc/),
for a quick build while they are being written; their ops are then served by the host. DENSECORE_NO_EXTENSION=1 builds none of them:
the pure-Python part (recording, comparing, explaining, probing) needs no compiler and works with torch >= 2.4.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "csrc"
MACOS = sys.platform == "darwin"
X86_64 = sysconfig.get_platform().endswith(("x86_64", "amd64"))  # of the target: a cross build sets $_PYTHON_HOST_PLATFORM

# The same flags as csrc/numerics/CMakeLists.txt: a product that is not rounded is a different number, so contraction is off.
NUMERICS_FLAGS = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-Wno-psabi"]
TORCH_FLAGS = ["-Os", "-ffp-contract=off"]  # the bindings hold no loops of arithmetic; -O2 makes the wheel a quarter larger
ISA_FLAGS = {
    "isa_default": ["-Os"] if X86_64 else [],  # x86-64 without AVX2 is for old hosts: small rather than unrolled
    "isa_avx2": ["-mavx2", "-mfma", "-mf16c"],
    "isa_avx512": "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mprefer-vector-width=512".split(),
}
SOURCE_FLAGS = {"sort.cpp": ["-O2"]}  # comparisons, not arithmetic: -O3 makes it larger and no faster
ISA_LEVELS = list(ISA_FLAGS) if X86_64 else ["isa_default"]


class Unit(NamedTuple):
    """One compilation: source, object, the flags that are its own, and the precompiled header it begins with."""

    source: Path
    object: Path
    flags: list[str]
    header: Path | None = None


def sources(pattern: str) -> list[Path]:
    """The sources below csrc/ that match `pattern` and are not skipped."""
    skipped = [word for word in os.environ.get("DENSECORE_SKIP", "").split(",") if word]
    return sorted(
        path for path in CSRC.glob(pattern) if not any(fnmatch(path.relative_to(CSRC).as_posix(), word) for word in skipped)
    )


def compilation_units(build_dir: Path, torch_flags: list[str]) -> list[Unit]:
    """All units in link order: the default ISA level comes first, so its copies of shared inline functions are the ones kept."""

    def unit(source: Path, flags: list[str], suffix: str = "", header: Path | None = None) -> Unit:
        name = source.relative_to(CSRC).with_suffix("").as_posix().replace("/", "-") + suffix + ".o"
        return Unit(source, build_dir / name, flags, header)

    units = [unit(source, NUMERICS_FLAGS) for source in sources("numerics/*.cpp")]
    variants = sources("numerics/variant/*.cpp")  # slow on purpose: one build will do
    default_flags = [*NUMERICS_FLAGS, "-DDENSECORE_ISA=isa_default", *ISA_FLAGS["isa_default"]]
    units += [unit(source, default_flags) for source in variants]
    for level in ISA_LEVELS:
        flags = [*NUMERICS_FLAGS, f"-DDENSECORE_ISA={level}", *ISA_FLAGS[level]]
        for source in sources("numerics/*/**/*.cpp"):
            if source not in variants:
                units.append(unit(source, [*flags, *SOURCE_FLAGS.get(source.name, [])], f"-{level}"))
    flags = [*TORCH_FLAGS, *torch_flags]
    header = Unit(CSRC / "aten" / "precompiled.h", build_dir / "precompiled.h.gch", [*flags, "-x", "c++-header"])
    begins_with_header = [*flags, "-include", str(build_dir / "precompiled.h")]
    units += [unit(source, begins_with_header, header=header.object) for source in sources("aten/**/*.cpp")]
    units += [unit(source, flags) for source in sources("runtime/**/*.cpp")]
    return [header, *units]


def linked(units: list[Unit]) -> list[Path]:
    """The objects to link; a precompiled header is none."""
    return [unit.object for unit in units if unit.object.suffix == ".o"]


def write_ninja(path: Path, compiler: str, common: list[str], units: list[Unit], link: list[str], target: Path) -> None:
    """Writes a build.ninja for `units` and the shared library `target`."""

    def escape(text: object) -> str:
        return str(text).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")

    lines = [
        "ninja_required_version = 1.3",
        f"rule compile\n  command = {compiler} {subprocess.list2cmdline(common)} $flags -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d\n  deps = gcc",
        f"rule link\n  command = {compiler} @$out.rsp -o $out {subprocess.list2cmdline(link)}",
        "  rspfile = $out.rsp\n  rspfile_content = $in",
    ]
    for unit in units:
        after = f" | {escape(unit.header)}" if unit.header else ""
        lines.append(f"build {escape(unit.object)}: compile {escape(unit.source)}{after}")
        lines.append(f"  flags = {subprocess.list2cmdline(unit.flags)}")
    lines.append(f"build {escape(target)}: link " + " ".join(escape(path) for path in linked(units)))
    path.write_text("\n".join(lines) + "\n")


class BuildExtension(build_ext):
    """Compiles with per-source flags, which setuptools' own build_ext does not offer."""

    def build_extension(self, ext: Extension) -> None:
        if sys.platform == "win32":
            raise SystemExit("torch_densecore: a Windows build is not supported yet; gcc or clang is needed")
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # an installed torch_densecore is not wanted here
        from torch.utils import cpp_extension

        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        build_dir = Path(self.build_temp).resolve()
        build_dir.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
        torch_flags = [word for path in includes for word in ("-isystem", path)]
        common = ["-std=c++20", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-g0", "-Wall"]
        common.append(f"-ffile-prefix-map={ROOT}=.")
        common += [f"-I{CSRC}", f"-I{CSRC / 'numerics'}"]
        library_dirs = cpp_extension.library_paths()
        link = ["-bundle", "-undefined", "dynamic_lookup", "-Wl,-x"] if MACOS else ["-shared", "-Wl,-s", "-Wl,--gc-sections"]
        link += [f"-L{path}" for path in library_dirs] + ["-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10"]
        compiler = os.environ.get("CXX", "c++")
        units = compilation_units(build_dir, torch_flags)
        # read where the compiler does not take the precompiled one
        (build_dir / "precompiled.h").write_text('#include "aten/precompiled.h"\n')
        if shutil.which("ninja"):
            write_ninja(build_dir / "build.ninja", compiler, common, units, link, target)
            jobs = os.environ.get("MAX_JOBS")
            if subprocess.run(["ninja", "-C", str(build_dir), *(["-j", jobs] if jobs else [])]).returncode != 0:
                raise SystemExit("torch_densecore: the build failed, see the compiler's messages above")
            return
        compile_all(compiler, common, units)
        objects = [str(path) for path in linked(units)]
        subprocess.run([compiler, *objects, "-o", str(target), *link], check=True)


def compile_all(compiler: str, common: list[str], units: list[Unit]) -> None:
    """Compiles without ninja, one process per CPU."""

    def compile_unit(unit: Unit) -> None:
        subprocess.run([compiler, *common, *unit.flags, "-c", str(unit.source), "-o", str(unit.object)], check=True)

    compile_unit(units[0])  # the precompiled header
    with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))) as pool:
        list(pool.map(compile_unit, units[1:]))


PURE = os.environ.get("DENSECORE_NO_EXTENSION") == "1"

setup(
    packages=find_namespace_packages(include=["torch_densecore", "torch_densecore.*"]),
    package_data={"torch_densecore": ["**/*.json", "**/*.toml", "**/*.html", "**/*.c", "**/*.h", "**/*.csv"]},
    py_modules=["pytest_densecore"],
    ext_modules=[] if PURE else [Extension("torch_densecore._C", sources=[])],
    cmdclass={"build_ext": BuildExtension},
)
