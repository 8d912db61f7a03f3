"""`densecore replay`: makes the stored calls of a trace again, each from its recorded inputs."""

from __future__ import annotations

import argparse

from .common import EQUAL, reports_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", help="trace file with stored tensors (--keep-tensors ops=... or steps=...)")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="trace file to write")
    parser.add_argument("--device", default="cpu", help="device that computes (cpu, densecore, cuda, mps)")


@reports_errors
def main(args: argparse.Namespace) -> int:
    from ..replay import replay

    made, failed = replay(args.trace, args.output, args.device)
    print(f"{made - failed} of {made} stored calls made again on {args.device}: {args.output}")
    return EQUAL
