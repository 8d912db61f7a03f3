"""`densecore explain`: says which arithmetic makes two traces differ."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..comparison import compare
from ..errors import TraceError
from ..terminal import short_shapes
from .common import exit_code, reports_errors, write

if TYPE_CHECKING:
    from ..explain.explanation import Explanation

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

        texts = {e.origin.first: e.answer for e in explanations}
        write(args.html, render(result, texts))
    if args.json:
        json.dump([_as_json(e) for e in explanations], sys.stdout, indent=1)
        print()
    else:
        _print(explanations)
    for problem in result.problems:
        print(f"densecore: {problem}; only what comes before was compared", file=sys.stderr)
    return exit_code(result)


def _as_json(explanation: Explanation) -> dict:
    data = dataclasses.asdict(explanation) | {"text": explanation.text, "explained": explanation.explained}
    for difference in (data["difference"], data["origin"]["difference"]):
        if difference["max_ulp"] == float("inf"):
            difference["max_ulp"] = None
    return data


def _print(explanations: list[Explanation]) -> None:
    """Every distinct answer once, with the places that it holds for."""
    from rich.console import Console
    from rich.text import Text

    console = Console() if sys.stdout.isatty() else Console(width=120)
    if not explanations:
        console.print("No call with equal inputs has unequal outputs: nothing to explain.")
        return
    groups: dict[tuple[str, ...], list[Explanation]] = defaultdict(list)
    for explanation in explanations:
        groups[explanation.origin.op, explanation.reason, explanation.conclusion].append(explanation)
    for number, ((op, reason, conclusion), members) in enumerate(groups.items(), 1):
        text = Text(f"{number}. {op}: ", style="bold")
        text.append("; ".join(filter(None, (reason, conclusion))) + ".", style=STYLES[members[0].verdict])
        console.print(text)
        for member in members:
            console.print(Text("   " + _place(member), style="dim"))
    console.print(_summary(explanations))


def _place(explanation: Explanation) -> str:
    origin = explanation.origin
    times = f"{len(origin.events)} times" if len(origin.events) > 1 else ""
    phase = "" if origin.phase == "forward" else f" ({origin.phase})"
    where = f"{origin.module}{phase}" if origin.module else phase.strip(" ()")
    return "; ".join(filter(None, (where, origin.source, short_shapes(origin.shapes), times, explanation.size)))


def _summary(explanations: list[Explanation]) -> str:
    arithmetic = [e for e in explanations if e.verdict != "not arithmetic"]
    parts = []
    if arithmetic:
        explained, known = (sum(getattr(e, name) for e in arithmetic) for name in ("explained", "reproduced"))
        parts.append(f"{explained} of {len(arithmetic)} arithmetic origins explained bit for bit on both sides")
        parts += [f"{known - explained} more reproduced by this machine's code paths"] if known > explained else []
    for verdict, words in (("beyond rounding", "larger than rounding"), ("unknown", "not judged by size")):
        count = sum(e.verdict == verdict for e in arithmetic)
        parts += [f"{count} {words}"] if count else []
    others = len(explanations) - len(arithmetic)
    parts += [f"{others} of another kind than arithmetic"] if others else []
    return ", ".join(parts) + "."
