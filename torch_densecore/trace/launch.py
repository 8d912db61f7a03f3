"""Runs an unmodified program (`python train.py ...`, `-m module`, `-c code`) inside a recording."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from .errors import TraceError

FLAGS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


@dataclass(frozen=True)
class Program:
    """A Python program as its command line says it. kind: "script", "module" or "code"."""

    kind: str
    target: str
    arguments: list[str]
    interpreter: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The command without the interpreter and its flags, as stored in the trace."""
        option = {"script": [], "module": ["-m"], "code": ["-c"]}[self.kind]
        return [*option, self.target, *self.arguments]

    @property
    def file(self) -> str | None:
        return self.target if self.kind == "script" else None


def parse(command: list[str]) -> Program:
    """Takes the words after `--` apart. Raises `TraceError` when they are not a Python program."""
    words = [word for i, word in enumerate(command) if not (i == 0 and word == "--")]
    if not words:
        raise TraceError("no program given; write it after --, as in: densecore record -o run.dct -- python train.py")
    interpreter = words.pop(0) if _is_python(words[0]) else None
    flags: list[str] = []
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        flags.append(words.pop(0))
        if flags[-1] in FLAGS_WITH_VALUE and words:
            flags.append(words.pop(0))
    if not words:
        raise TraceError(f"no script in {' '.join(command)!r}")
    if words[0] in ("-m", "-c"):
        if len(words) < 2:
            raise TraceError(f"{words[0]} needs a value")
        kind = "module" if words[0] == "-m" else "code"
        return Program(kind, words[1], words[2:], interpreter, tuple(flags))
    if not os.path.isfile(words[0]):
        raise TraceError(f"no such script: {words[0]} (only Python programs can be recorded)")
    return Program("script", words[0], words[1:], interpreter, tuple(flags))


def needs_other_interpreter(program: Program) -> bool:
    """Whether the command asks for interpreter flags or for a Python that is not the running one."""
    if program.flags:
        return True
    if program.interpreter is None:
        return False
    found = shutil.which(program.interpreter)
    if found is None:
        raise TraceError(f"no such interpreter: {program.interpreter}")
    return os.path.realpath(found) != os.path.realpath(sys.executable)


def replace_process(program: Program, arguments: list[str]) -> None:
    """Starts `densecore ARGUMENTS -- PROGRAM` in the interpreter that the program asks for; does not return."""
    interpreter = shutil.which(program.interpreter or "") or sys.executable
    command = [interpreter, *program.flags, "-m", "torch_densecore.cli", *arguments, "--", *program.words]
    os.execv(interpreter, command)


def run(program: Program, recording: Callable[[], AbstractContextManager[Any]]) -> int:
    """Runs the program as `__main__` inside `recording()` and returns its exit code; its exceptions pass through."""
    before = sys.argv, sys.path[:]
    sys.argv = [program.target if program.kind == "script" else f"-{program.kind[0]}", *program.arguments]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(program.target)) if program.kind == "script" else os.getcwd()]
    try:
        with recording():
            _execute(program)
    except SystemExit as stop:
        return _exit_code(stop)
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _execute(program: Program) -> None:
    if program.kind == "script":
        runpy.run_path(program.target, run_name="__main__")
    elif program.kind == "module":
        runpy.run_module(program.target, run_name="__main__", alter_sys=True)
    else:
        exec(compile(program.target, "<command>", "exec"), {"__name__": "__main__"})


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _is_python(word: str) -> bool:
    name = os.path.basename(word).removesuffix(".exe")
    return name.startswith(("python", "pypy")) and not word.endswith(".py")
