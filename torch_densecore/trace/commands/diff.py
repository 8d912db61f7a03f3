"""`densecore diff`: compares two traces."""

from __future__ import annotations

import argparse
import json
import sys

from ..comparison import Comparison, compare
from .common import exit_code, reports_errors, write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="trace file")
    parser.add_argument("b", help="trace file")
    add_output(parser)
    parser.epilog = "Exit code: 0 equal, 1 different, 2 a file is unusable or the programs are not the same."


def add_output(parser: argparse.ArgumentParser) -> None:
    """The options of a comparison's output."""
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write JSON (default: to stdout)")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained HTML report")
    parser.add_argument("--all", action="store_true", help="print all origins, not only the first 40")


@reports_errors
def main(args: argparse.Namespace) -> int:
    return report(compare(args.a, args.b), args)


def report(result: Comparison, args: argparse.Namespace) -> int:
    """Prints or writes a comparison and returns the exit code."""
    from ..results import as_json

    if args.html:
        from ..html import render

        write(args.html, render(result))
    if args.json == "-":
        json.dump(as_json(result), sys.stdout, indent=1)
        print()
    else:
        if args.json:
            write(args.json, json.dumps(as_json(result), indent=1))
        _print(result, args)
    return exit_code(result)


def _print(result: Comparison, args: argparse.Namespace) -> None:
    from rich.console import Console

    from ..terminal import show

    console = Console() if sys.stdout.isatty() else Console(width=160)
    show(result, console, all_origins=args.all)
    for path in filter(None, (args.html, args.json)):
        console.print(f"written: {path}")
