"""What the subcommands share: a clear message instead of a traceback, and exit code 2 for what cannot be used."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

from ..comparison import Comparison
from ..errors import TraceError

EQUAL, DIFFERENT, UNUSABLE = 0, 1, 2


def reports_errors(main: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Prints a `TraceError` as one message and returns exit code 2."""

    @functools.wraps(main)
    def guarded(args: argparse.Namespace) -> int:
        try:
            return main(args)
        except TraceError as error:
            print(f"densecore: {error}", file=sys.stderr)
            return UNUSABLE
        except BrokenPipeError:  # the reader of our output (head, less) went away
            sys.stderr.close()
            return EQUAL

    return guarded


def exit_code(result: Comparison) -> int:
    """Of a comparison."""
    if result.problems:
        return UNUSABLE
    return DIFFERENT if result.differ or result.incomplete else EQUAL


def write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TraceError(f"cannot write {path}: {error.strerror}") from error


PROGRAM = "-- python train.py ... (or -m module, -c code): the words after -- are the program."


def add_recording(parser: argparse.ArgumentParser) -> None:
    """The options of a recording."""
    from ..keep import HELP

    parser.add_argument("--keep-tensors", action="append", metavar="WHICH", help=f"store tensors: {HELP}")
    parser.add_argument("--keep-limit", type=parse_size, default="256M", metavar="SIZE", help="cap of tensors (256M)")
    parser.add_argument("--samples", type=int, default=32, metavar="N", help="elements of every output to store (32)")
    parser.add_argument("--logical-order", action="store_true", help="digests independent of memory layout (slower)")
    parser.add_argument("--rehash", action="store_true", help="hash every input of every operator anew (slower)")


def parse_size(text: str) -> int:
    """Bytes of `512`, `64K`, `256M` or `2G`."""
    units = {"K": 10, "M": 20, "G": 30}
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in units else (text, "")
    if not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size (512, 64K, 256M, 2G)")
    return int(number) << units.get(unit, 0)
