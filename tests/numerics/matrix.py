"""Builds the digest program for a matrix of compilers, -O levels and instruction sets, and compares it with the hash file.

    python tests/numerics/matrix.py                   # all cells
    python tests/numerics/matrix.py digest            # the hash file alone; also: negative, sanitize
    python tests/numerics/matrix.py --cell clang      # cells whose name contains a word
    python tests/numerics/matrix.py --update          # writes digests.txt after a kernel was added or changed

Needs cmake, ninja, xxhash.h, gcc, clang; for aarch64 a cross g++ and qemu-user (Debian: cmake ninja-build libxxhash-dev clang
g++-aarch64-linux-gnu qemu-user). What cannot run is listed at the end; the exit code is 1 if anything differs or nothing ran.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
HASH_FILE = HERE / "digests.txt"
HEADER = """\
# What every kernel of csrc/numerics gives for fixed inputs, on every host: name, variant, elements, XXH64 of the bits.
# Every NaN counts as the same one. Written by `python tests/numerics/matrix.py --update`; test_hash_file.py asks the reference.
"""
X86_LEVELS = ("default", "avx2", "avx512")
ARM_LEVELS = ("default",)  # NEON
X86_HOST = platform.machine().lower() in ("x86_64", "amd64")
ARM_HOST = platform.machine().lower() in ("aarch64", "arm64")
ARM_CROSS = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64")
XXHASH_FOLDERS = ("/usr/include", "/usr/local/include", "/opt/homebrew/include")
SECONDS = 1200  # no step takes longer, also under emulation
JOBS = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)  # compiler processes
AT_ONCE = min(2, JOBS)  # cells: one builds while another one runs


@dataclass(frozen=True)
class Cell:
    """One build of the digest program and the ways it is run."""

    name: str
    group: str
    compiler: str
    optimisation: str
    levels: tuple[str, ...] = X86_LEVELS
    flags: str = ""
    options: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1, 8)
    only: str = ""
    must_differ: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    fuzz_seconds: int = 0  # libFuzzer's targets are built as well and run so long

    def definitions(self) -> list[str]:
        """What CMake is told."""
        flags = [
            f"-DCMAKE_CXX_COMPILER={self.compiler}",
            f"-DCMAKE_CXX_FLAGS={self.optimisation}",
            f"-DDENSECORE_FLAGS={self.flags}",
        ]
        if X86_HOST and not self.runner and self.levels != X86_LEVELS:  # build no more than will be run
            flags.append(f"-DDENSECORE_LEVELS={';'.join(f'isa_{level}' for level in self.levels)}")
        return [*flags, *self.options]

    def missing(self) -> str:
        """Why this cell cannot run here, or nothing."""
        cross = ["aarch64-linux-gnu-g++"] if self.runner else []  # whose libraries clang uses
        needed = ["cmake", "ninja", self.compiler, *cross, *self.runner[:1]]
        absent = [tool for tool in needed if shutil.which(tool) is None]
        if not any((Path(folder) / "xxhash.h").exists() for folder in XXHASH_FOLDERS):
            absent.append("xxhash.h")
        if absent:
            return f"needs {', '.join(dict.fromkeys(absent))}"
        if "-fsanitize" in self.flags and not links(self.compiler, self.flags):
            return f"needs {self.compiler}'s libraries for {self.flags}"
        if self.levels != ARM_LEVELS and not X86_HOST:
            return "needs an x86-64 host"
        return ""


@cache
def links(compiler: str, flags: str) -> bool:
    """Whether a program can be built with these flags."""
    command = [compiler, *flags.split(), "-x", "c++", "-", "-o", os.devnull]
    return subprocess.run(command, input="int main() {}", text=True, capture_output=True).returncode == 0


def _arm(name: str, group: str, compiler: str, optimisation: str, **more: object) -> Cell:
    """An aarch64 cell: native on an aarch64 host, else cross-compiled, linked statically and run by qemu-user."""
    if ARM_HOST:
        native = {"aarch64-linux-gnu-g++": "g++"}.get(compiler, compiler)
        return Cell(name, group, native, optimisation, ARM_LEVELS, **more)  # type: ignore[arg-type]
    target = ("-DCMAKE_CXX_COMPILER_TARGET=aarch64-linux-gnu",) if compiler == "clang++" else ()
    options = (*ARM_CROSS, *target, "-DCMAKE_EXE_LINKER_FLAGS=-static", *more.pop("options", ()))  # type: ignore[misc]
    return Cell(name, group, compiler, optimisation, ARM_LEVELS, options=options, runner=("qemu-aarch64",), **more)  # type: ignore[arg-type]


SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1",
}
ADDRESS = "-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -g1"
THREAD = "-fsanitize=thread -g1"
CELLS = (
    Cell("x86-64 gcc -O1", "digest", "g++", "-O1", threads=(1, 2, 3, 4, 5, 6, 7, 8)),
    Cell("x86-64 clang -O2", "digest", "clang++", "-O2"),
    _arm("aarch64 gcc -O2", "digest", "aarch64-linux-gnu-g++", "-O2", threads=(2,)),
    _arm("aarch64 clang -O3", "digest", "clang++", "-O3", threads=(1,)),
    # a compiler that may fuse products and sums must not pass
    _arm("aarch64 clang, contraction", "negative", "clang++", "-O1", flags="-ffp-contract=fast", threads=(1,), must_differ=True),
    Cell(
        "ASan and UBSan, clang -O1",
        "sanitize",
        "clang++",
        "-O1",
        flags=ADDRESS,
        threads=(3,),
        environment=SANITIZER_OPTIONS,
        levels=("avx2",),
        options=("-DDENSECORE_FUZZ=ON",),
        fuzz_seconds=30,
    ),
    Cell(
        "TSan, clang -O1",
        "sanitize",
        "clang++",
        "-O1",
        flags=THREAD,
        threads=(4,),
        environment=SANITIZER_OPTIONS,
        levels=("default",),
    ),
)


@dataclass
class Outcome:
    """What a run of a cell gave; `problem` is empty if it is as it must be. `lines` of the hash file, or inputs of the fuzzer."""

    cell: Cell
    how: str
    lines: int
    problem: str
    good: str = "equal"


def parse(text: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(name, variant) -> (elements, hash) of a hash file or of the program's output."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {(name, variant): (elements, digest) for name, variant, elements, digest in rows}


def compare(expected: dict, got: dict) -> list[str]:
    """The lines that differ, are missing or are new, as text."""
    different = [key for key in sorted(expected.keys() | got.keys()) if expected.get(key) != got.get(key)]
    return [f"{' '.join(key)}: {expected.get(key)} expected, got {got.get(key)}" for key in different]


def build(cell: Cell, folder: Path) -> Path:
    """Configures and builds a cell; returns the program. Raises RuntimeError with the compiler's words."""
    configure = [
        "cmake", "-G", "Ninja", "-S", str(HERE), "-B", str(folder), "-DCMAKE_BUILD_TYPE=None", *cell.definitions(),
    ]  # fmt: skip
    for command in (configure, ["ninja", "-C", str(folder), "-j", str(JOBS // AT_ONCE)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return folder / "digest"


def run_digest(cell: Cell, program: Path, level: str, threads: int) -> str:
    """The program's lines at one level; raises RuntimeError if it fails or runs at another level than was asked for."""
    command = [*cell.runner, str(program), "--threads", str(threads), *(["--only", cell.only] if cell.only else [])]
    environment = {**os.environ, **cell.environment, "DENSECORE_ISA": level}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}\n{done.stderr[-6000:]}")
    if f"isa {level} " not in done.stderr:
        raise LookupError(f"this CPU has no {level}")
    return done.stdout


def run_fuzzer(cell: Cell, folder: Path) -> Outcome:
    """Runs the fuzz target; the number of inputs that it tried counts as lines."""
    command = [
        str(folder / "fuzz_kernels"),
        f"-max_total_time={cell.fuzz_seconds}",
        "-seed=1",
        "-max_len=4096",
        "-print_final_stats=1",
    ]
    environment = {**os.environ, **cell.environment, "DENSECORE_ISA": cell.levels[-1]}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=folder, timeout=SECONDS)
    tried = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    problem = "" if done.returncode == 0 and tried else done.stderr[-6000:]
    return Outcome(cell, f"libFuzzer, {cell.fuzz_seconds} s", int(tried.group(1)) if tried else 0, problem, "no finding")


def judge(cell: Cell, output: str, expected: dict) -> str:
    """The problem with one run's lines, or nothing."""
    different = compare(expected, parse(output))
    if cell.must_differ:
        return "" if different else "equals the hash file, though it was built to differ"
    if not different:
        return ""
    return f"{len(different)} lines differ, first:\n      " + "\n      ".join(different[:5])


def outcomes_of(cell: Cell, folder: Path, expected: dict) -> Iterator[Outcome]:
    """Builds a cell and runs it at every level and thread count."""
    program = build(cell, folder)
    for level in cell.levels:
        for threads in cell.threads if level == cell.levels[-1] else cell.threads[-1:]:
            try:
                output = run_digest(cell, program, level, threads)
            except LookupError as absent:
                yield Outcome(cell, f"{level}: {absent}", 0, "")
                break
            good = "differs, as it must" if cell.must_differ else "equal"
            yield Outcome(cell, f"{level}, {threads} threads", len(parse(output)), judge(cell, output, expected), good)
    if cell.fuzz_seconds:
        yield run_fuzzer(cell, folder)


def run_cell(cell: Cell, folder: Path, expected: dict) -> list[Outcome]:
    """All outcomes of a cell; a failure is one."""
    started = time.monotonic()
    outcomes = []
    try:
        outcomes += outcomes_of(cell, folder, expected)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        outcomes.append(Outcome(cell, "failed", 0, str(error)))
    print(f"  {cell.name}: {time.monotonic() - started:.0f} s", flush=True)
    return outcomes


def update(folder: Path) -> int:
    """Writes the hash file from the first cell, once all its levels agree."""
    cell = next(c for c in CELLS if c.group == "digest" and not c.missing())
    program = build(cell, folder)
    outputs = {}
    for level in cell.levels:
        try:
            outputs[level] = run_digest(cell, program, level, 2)
        except LookupError as absent:
            print(f"without {level}: {absent}")
    if len(set(outputs.values())) != 1:
        first, *others = outputs.items()
        for level, output in others:
            print(f"{level} differs from {first[0]}:", *compare(parse(first[1]), parse(output))[:10], sep="\n  ")
        return 1
    text = HEADER + next(iter(outputs.values()))
    before = parse(HASH_FILE.read_text()) if HASH_FILE.exists() else {}
    HASH_FILE.write_text(text)
    print(*compare(before, parse(text)) or ["nothing changed"], sep="\n")
    return 0


def report(outcomes: Sequence[Outcome], not_run: Sequence[str]) -> int:
    """Prints the table and returns the exit code."""
    for outcome in outcomes:
        verdict = outcome.problem or (outcome.good if outcome.lines else "NOT RUN")
        print(f"{outcome.cell.name:28} {outcome.how:28} {outcome.lines:7}  {verdict}")
    for reason in not_run:
        print(f"NOT RUN: {reason}")
    ran = sum(outcome.lines > 0 for outcome in outcomes)
    problems = sum(bool(outcome.problem) for outcome in outcomes)
    print(f"{ran} runs, {problems} with a problem, {len(not_run)} cells not run")
    return 1 if problems or not ran else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", help="digest, negative, sanitize; default all")
    parser.add_argument("--cell", default="", help="only cells whose name contains this")
    parser.add_argument("--build-dir", type=Path, help="keep the builds here (default: a temporary folder)")
    parser.add_argument("--update", action="store_true", help="write the hash file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.build_dir or Path(temporary)
        if args.update:
            return update(folder / "update")
        expected = parse(HASH_FILE.read_text())
        wanted = [cell for cell in CELLS if args.cell in cell.name and (not args.groups or cell.group in args.groups)]
        not_run = [f"{cell.name}: {cell.missing()}" for cell in wanted if cell.missing()]
        cells = [cell for cell in wanted if not cell.missing()]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            folders = [folder / str(CELLS.index(cell)) for cell in cells]
            results = list(pool.map(run_cell, cells, folders, [expected] * len(cells)))
        outcomes = [outcome for result in results for outcome in result]
        return report(outcomes, not_run)


if __name__ == "__main__":
    sys.exit(main())
