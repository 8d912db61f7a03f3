"""`densecore probe`: finds out how this machine computes and writes it as JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import TraceError
from .common import EQUAL, reports_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="profile.json", metavar="FILE", help="file to write (profile.json)")
    parser.add_argument("--seconds", type=float, default=60, help="time for the products (60; a free machine needs 10)")
    parser.add_argument("--quick", action="store_true", help="only what the device follows, products of few sizes (about 10 s)")
    parser.add_argument("--oracle", action="store_true", help="probe the emulated macOS wheel instead of this machine (quick)")
    parser.epilog = "The file holds no personal data: versions, CPU name, digests and orders. Send it to the project from a Mac."


@reports_errors
def main(args: argparse.Namespace) -> int:
    from ..probe.machine import probe
    from ..probe.wheel import oracle_ops

    if not Path(args.output).resolve().parent.is_dir():
        raise TraceError(f"cannot write {args.output}: no such folder")
    with oracle_ops() if args.oracle else contextlib.nullcontext():
        result = probe(
            seconds=600 if args.oracle else args.seconds,
            quick=args.quick or args.oracle,
            progress=lambda what: print(f"probing: {what}", file=sys.stderr),
        )
    Path(args.output).write_text(json.dumps(result, indent=1), encoding="utf-8")
    _summary(result)
    print(f"written in {result['seconds']} s: {args.output}")
    return EQUAL


def _summary(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..probe.follow import where

    console = Console() if sys.stdout.isatty() else Console(width=160)
    if "sums" in result:
        table = Table("operator", "order of summation at 8, 64 and 385 elements", show_edge=False, pad_edge=False)
        for name, orders in result["sums"].items():
            table.add_row(name, orders.get("error") or " | ".join(orders.get(n, "-")[:40] for n in ("8", "64", "385")))
        console.print(table)
    for op, entry in result["fields"].items():
        console.print(f"{op}: " + ", ".join(f"{name} {value}" for name, value in entry.items()), highlight=False)
    console.print(f"products: {result['products']['probed']}")
    for rule in (result["products"]["table"] or {"rules": []})["rules"]:
        if rule["order"] != "unknown":
            console.print(f"{where(rule)}: {rule['order']} ({rule['source']})", highlight=False)
