"""`densecore coverage`: every op of the device with its tier, dtypes, certificate, reason and source."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

import torch

from torch_densecore import registry
from torch_densecore.certify import certificates

TIERS = (registry.KERNEL, registry.EXACT, registry.UNCERTIFIED)
_GROUPS = (
    ("any dtype", registry.ANY),
    ("real", registry.REAL),
    ("integers, bool", registry.INTEGRAL),
    ("floats", registry.FLOATING),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs="*", help="patterns such as aten::mm or '*softmax*' (default: all)")
    parser.add_argument("--tier", choices=TIERS, help="only ops of this tier")
    parser.add_argument("--dtype", default="float32", help="the dtype that decides the tier column (default: float32)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def describe_dtypes(dtypes: set[torch.dtype]) -> str:
    """A short name for a set of dtypes."""
    for text, group in _GROUPS:
        if dtypes == group:
            return text
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))


def rows(patterns: list[str], tier: str | None, dtype: torch.dtype) -> list[dict[str, Any]]:
    """One dict an op of the device that matches."""
    from torch_densecore import _C

    found = []
    for name in sorted(name for name, _ in _C.device_ops()):
        if patterns and not any(fnmatchcase(name, p if p.startswith(("aten::", "*")) else f"aten::{p}") for p in patterns):
            continue
        op = registry.get(name)
        if tier and op.tier(dtype) != tier:
            continue
        found.append(
            {
                "op": name,
                "tier": op.tier(dtype),
                "kernel": describe_dtypes(op.kernel),
                "exact": describe_dtypes(op.exact),
                "certificate": certificates.summary(name),
                "reason": "; ".join(op.reasons),
                "source": "; ".join(op.sources),
            }
        )
    return found


def main(args: argparse.Namespace) -> int:
    dtype = getattr(torch, args.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise SystemExit(f"densecore coverage: unknown dtype {args.dtype!r}")
    found = rows(args.ops, args.tier, dtype)
    if not found:
        raise SystemExit(f"densecore coverage: no op of the device matches {' '.join(args.ops) or args.tier}")
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    _print_table(found, args.dtype)
    return 0


def _print_table(found: list[dict[str, Any]], dtype: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"densecore ops, tier for {dtype}")
    for column in found[0]:
        table.add_column(column, overflow="fold")
    styles = {registry.KERNEL: "green", registry.EXACT: "cyan", registry.UNCERTIFIED: "yellow"}
    for row in found:
        table.add_row(*row.values(), style=styles[row["tier"]])
    console = Console(width=None if sys.stdout.isatty() else 200)  # a pipe has no width
    console.print(table)
    counts = Counter(row["tier"] for row in found)
    console.print(f"{len(found)} ops: " + ", ".join(f"{counts[tier]} {tier}" for tier in TIERS))
