"""`densecore record`: runs a program and records every operator to a trace file."""

from __future__ import annotations

import argparse
import sys
import traceback

from .. import launch
from .common import PROGRAM, add_recording, reports_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="trace to write ({rank}: process rank)")
    parser.add_argument("--against", metavar="TRACE", help="trace to compare with while running (first-divergence)")
    add_recording(parser)
    parser.epilog = PROGRAM


@reports_errors
def main(args: argparse.Namespace) -> int:
    program = launch.parse(args.program)
    if launch.needs_other_interpreter(program):
        launch.replace_process(program, ["record", *options(args)])
    return run_recorded(program, args, args.output)


def options(args: argparse.Namespace) -> list[str]:
    """The recording options as words again."""
    words = ["-o", args.output, "--keep-limit", str(args.keep_limit), "--samples", str(args.samples)]
    for which in args.keep_tensors or []:
        words += ["--keep-tensors", which]
    if args.against:
        words += ["--against", args.against]
    switches = {"--rehash": args.rehash, "--logical-order": args.logical_order}
    return words + [name for name, on in switches.items() if on]


def run_recorded(program: launch.Program, args: argparse.Namespace, output: str) -> int:
    """Runs the program while recording it; returns the program's exit code (1 after an exception, as Python does)."""
    from ..recorder import record

    def recording():
        return record(
            output, keep=args.keep_tensors, keep_limit=args.keep_limit, against=args.against, samples=args.samples,
            reuse_digests=not args.rehash, logical_order=args.logical_order, program=program.words, script=program.file,
        )  # fmt: skip

    from ..errors import TraceError

    try:
        return launch.run(program, recording)
    except TraceError:
        raise
    except Exception as error:  # the program's own failure: shown as Python shows it, the trace is complete up to there
        traceback.print_exception(error)
        print(f"densecore: the program failed; {output} holds what ran before", file=sys.stderr)
        return 1
