"""`densecore explain`: says which arithmetic makes two traces differ."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from ..comparison import compare
from ..errors import TraceError
from .common import DIFFERENT, EQUAL, reports_errors

STYLES = {"rounding": "green", "beyond rounding": "bold red", "unknown": "yellow", "not arithmetic": "cyan"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="trace file")
    parser.add_argument("b", help="trace file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--html", metavar="FILE", help="write the comparison's report with the explanations")
    parser.add_argument("--no-replay", action="store_true", help="do not try this machine's own code paths")
    parser.epilog = (
        "-- python train.py ...: run the program again for inputs that are not stored. "
        "Exit code: 0 nothing to explain, 1 differences (explained or not), 2 unusable."
    )


@reports_errors
def main(args: argparse.Namespace) -> int:
    from ..explain.explanation import explain, rerun

    result = compare(args.a, args.b)
    extra = None
    with tempfile.TemporaryDirectory() as folder:
        if args.program:
            extra = rerun(result, args.program, str(Path(folder, "again.dct")))
            if not extra:
                raise TraceError(f"running the program here did not reproduce the inputs that {args.a} recorded")
        explanations = explain(result, extra=extra, replays=not args.no_replay)
    if args.html:
        from ..html import render

        texts = {e.origin.first: e.text for e in explanations}
        Path(args.html).write_text(render(result, texts), encoding="utf-8")
    if args.json:
        json.dump([_as_json(e) for e in explanations], sys.stdout, indent=1)
        print()
    else:
        _print(explanations)
    return DIFFERENT if result.differ else EQUAL


def _as_json(explanation: object) -> dict:
    data = dataclasses.asdict(explanation)
    for difference in (data["difference"], data["origin"]["difference"]):
        if difference["max_ulp"] == float("inf"):
            difference["max_ulp"] = None
    return data


def _print(explanations: list) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=120)
    if not explanations:
        console.print("No call with equal inputs has unequal outputs: nothing to explain.")
    for number, explanation in enumerate(explanations, 1):
        text = Text(f"{number}. ", style="bold")
        text.append(explanation.text, style=STYLES[explanation.verdict])
        console.print(text)
        times = len(explanation.origin.events)
        where = f"   {explanation.origin.source}, {explanation.origin.shapes}"
        console.print(Text(where + (f", {times} times" if times > 1 else ""), style="dim"))
