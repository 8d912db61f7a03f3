"""`densecore probe`: finds out how this machine computes and writes it as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ..errors import TraceError
from .common import EQUAL, reports_errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="profile.json", metavar="FILE", help="file to write (profile.json)")
    parser.add_argument("--seconds", type=float, default=60, help="time for the grid of products (60); the rest takes about 20")
    parser.epilog = "The file holds no personal data: versions, CPU name, digests and orders. Send it to the project from a Mac."


@reports_errors
def main(args: argparse.Namespace) -> int:
    from ..probe.machine import probe

    if not Path(args.output).resolve().parent.is_dir():
        raise TraceError(f"cannot write {args.output}: no such folder")
    result = probe(seconds=args.seconds, progress=lambda what: print(f"probing: {what}", file=sys.stderr))
    Path(args.output).write_text(json.dumps(result, indent=1), encoding="utf-8")
    _summary(result)
    print(f"written in {result['seconds']} s: {args.output}")
    return EQUAL


def _summary(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("operator", "order of summation at 8, 64 and 385 elements", show_edge=False, pad_edge=False)
    for name, orders in result["sums"].items():
        table.add_row(name, orders.get("error") or " | ".join(orders.get(n, "-")[:40] for n in ("8", "64", "385")))
    console = Console() if sys.stdout.isatty() else Console(width=160)
    console.print(table)
    console.print(f"vectors of {result['lanes']} floats; {result['products']['probed']} of products probed")
    for rule in result["products"]["table"]["rules"]:
        where = f"{rule['routine']} {rule.get('transa') or rule.get('trans') or ''}".strip()
        least = f", m*n*k >= {rule['minimum_product']}" if "minimum_product" in rule else ""
        console.print(f"{where}{least}: {rule['order']} ({rule['source']})")
