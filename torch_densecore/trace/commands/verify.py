"""`densecore verify`: runs a program again and compares it with a stored trace; made for CI."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from .. import launch
from ..comparison import compare
from ..errors import TraceError
from ..format import TraceReader
from .common import PROGRAM, UNUSABLE, add_recording, reports_errors
from .diff import add_output, report
from .record import run_recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("golden", help="trace file of the run that counts as right")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the new trace here")
    add_output(parser)
    add_recording(parser)
    parser.epilog = f"{PROGRAM} Exit code: 0 equal, 1 different, 2 the program failed or a file is unusable."


@reports_errors
def main(args: argparse.Namespace) -> int:
    TraceReader(args.golden)  # said before the program runs
    program = launch.parse(args.program)
    if launch.needs_other_interpreter(program):
        launch.replace_process(program, _words(args))
    args.against = args.golden
    args.keep_tensors = args.keep_tensors or ["first-divergence"]
    with tempfile.TemporaryDirectory() as folder:
        output = args.output or str(Path(folder, "run.dct"))
        if os.path.exists(output) and os.path.samefile(output, args.golden):
            raise TraceError(f"{output} is the golden trace itself; give another file with -o")
        code = run_recorded(program, args, output)
        if code:
            print(f"densecore: the program ended with exit code {code}", file=sys.stderr)
            return UNUSABLE
        return report(compare(args.golden, output), args)


def _words(args: argparse.Namespace) -> list[str]:
    """This command's options as words again."""
    words = ["verify", args.golden, "--keep-limit", str(args.keep_limit), "--samples", str(args.samples)]
    for which in args.keep_tensors or []:
        words += ["--keep-tensors", which]
    for name in ("output", "html"):
        if getattr(args, name):
            words += [f"--{name}", getattr(args, name)]
    if args.json:
        words += [f"--json={args.json}"]
    switches = {"--all": args.all, "--rehash": args.rehash, "--logical-order": args.logical_order}
    return words + [name for name, on in switches.items() if on]
