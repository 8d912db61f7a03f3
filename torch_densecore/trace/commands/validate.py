"""`densecore validate`: checks that a trace file is complete and undamaged."""

from __future__ import annotations

import argparse

from ..format import validate
from .common import DIFFERENT, EQUAL, reports_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", help="trace file")


@reports_errors
def main(args: argparse.Namespace) -> int:
    """0: complete and sound; 1: usable, but damaged or from a run that was killed; 2: not a trace."""
    summary = validate(args.trace)
    print(f"{args.trace}: {summary.events} operator calls at {summary.sites} sites, {summary.steps} step marks, "
          f"tensors of {summary.tensors} calls")
    for note in summary.notes:
        print(f"note: {note}")
    if summary.problem:
        print(f"damaged: {summary.problem}; the {summary.events} calls before it are readable")
        return DIFFERENT
    if summary.status == "killed":
        print("incomplete: the run was killed; everything up to there is readable")
        return DIFFERENT
    if summary.error:
        print(f"the run ended with {summary.error}")
    else:
        print("sound and complete")
    return EQUAL
