"""`densecore certificates`: what was swept, from the certificates in the tree; the source of docs/certified.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .. import registry
from . import certificates
from .certificates import MODES, Certificate
from .specs import NOT_SWEPT, SPECS

_COLUMNS = ("op", "tier", "mode", "dtypes", "calls", "elements", "threads", "modelled")


@dataclass(frozen=True)
class Row:
    """The certificates of one operator, mode and set of modelled functions."""

    op: str
    mode: str
    tier: str
    found: tuple[Certificate, ...]

    def cells(self) -> tuple[str, ...]:
        """Text for the columns of the table."""
        dtypes = ", ".join(c.dtype for c in self.found)
        mode = f"{self.mode}: {', '.join(self.found[0].passes)}" if self.found[0].passes else self.mode
        threads = " ".join(map(str, sorted({t for c in self.found for t in c.threads})))
        modelled = ", ".join(sorted({name for c in self.found for name in c.provenance}))
        sums = (f"{sum(getattr(c, name) for c in self.found):,}" for name in ("inputs", "elements"))
        return (self.op.removeprefix("aten::"), self.tier, mode, dtypes, *sums, threads, modelled)

    def to_json(self) -> dict[str, object]:
        """The row as data, its sums as numbers."""
        data = dict(zip(_COLUMNS, self.cells(), strict=True))
        return {**data, **{name: int(str(data[name]).replace(",", "")) for name in ("calls", "elements")}}


def _tier(op: str, dtypes: Iterable[str]) -> str:
    """kernel, exact or both, by the registry; "composite" for an operator that torch makes of others."""
    declared = registry.load().get(op)
    if declared is None:
        return "composite"
    kernels = {str(dtype).removeprefix("torch.") for dtype in declared.kernel}
    return ", ".join(sorted({registry.KERNEL if dtype in kernels else registry.EXACT for dtype in dtypes}, reverse=True))


def rows(patterns: Iterable[str] = (), mode: str | None = None, path: Path = certificates.FILE) -> list[Row]:
    """One row an operator and mode."""
    qualified = [p if p.startswith(("aten::", "*")) else f"aten::{p}" for p in patterns]
    grouped: dict[tuple[str, str], list[Certificate]] = {}
    for certificate in certificates.load_all(path):
        wanted = not qualified or any(fnmatchcase(certificate.op, pattern) for pattern in qualified)
        if wanted and mode in (None, certificate.mode):
            grouped.setdefault((certificate.op, certificate.mode), []).append(certificate)
    order = sorted(grouped.items(), key=lambda item: (item[0][0], -MODES.index(item[0][1])))
    return [Row(op, kind, _tier(op, [c.dtype for c in found]), tuple(found)) for (op, kind), found in order]


def totals(table: list[Row]) -> str:
    """How many operators and elements, by mode."""
    found = [certificate for row in table for certificate in row.found]
    counts = ", ".join(f"{sum(c.mode == mode for c in found):,} {mode}" for mode in reversed(MODES))
    return (
        f"{len({row.op for row in table}):,} operators, {len(found):,} certificates ({counts}); "
        f"{sum(c.elements for c in found):,} elements compared, {sum(c.off for c in found)} off"
    )


def unswept(path: Path = certificates.FILE) -> dict[str, list[str]]:
    """Operators with dtypes that the device claims and that no full or exhaustive sweep has had."""
    found: dict[str, list[str]] = {}
    for op in registry.load():
        if op in SPECS:
            have = {c.dtype for c in certificates.load(op, path) if c.mode != "quick" and not c.shard}
            claimed = (str(dtype).removeprefix("torch.") for dtype in SPECS[op].claimed())
            missing = [dtype for dtype in claimed if dtype not in have]
            if missing:
                found[op] = missing
    return found


def markdown(table: list[Row], path: Path = certificates.FILE) -> str:
    """The page: totals, the table, and what is declared without a certificate."""
    wheels = sorted({(c.profile["name"], c.wheel_sha256) for row in table for c in row.found})
    lines = [
        "# What was swept", "",
        "Written by `densecore certificates --markdown` from `torch_densecore/certificates.json`; [certify.md](certify.md) says",
        "how certificates are made and what the columns mean.", "",
        f"{totals(table)}.", "",
        *(f"Reference: {name}, wheel SHA-256 {sha}." for name, sha in wheels), "",
        "| " + " | ".join(_COLUMNS) + " |", "|---|---|---|---|---:|---:|---|---|",
        *("| " + " | ".join(row.cells()) + " |" for row in table), "",
        "Declared without a certificate:", "",
        *(f"- `{op.removeprefix('aten::')}`: {reason}" for op, reason in sorted(NOT_SWEPT.items())), "",
        "Dtypes without a sweep (torch refuses some of them; `densecore certify --missing` sweeps the rest):", "",
        *(f"- `{op.removeprefix('aten::')}`: {', '.join(dtypes)}" for op, dtypes in sorted(unswept(path).items())), "",
    ]  # fmt: skip
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `densecore certificates`."""
    parser.add_argument("ops", nargs="*", help="patterns such as aten::mm or '*softmax*' (default: all)")
    parser.add_argument("--mode", choices=MODES, help="only certificates of this mode")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the page docs/certified.md")
    parser.add_argument("--file", type=Path, default=certificates.FILE, help="the certificates")


def main(options: argparse.Namespace) -> int:
    """Print the table; exit code 1 when nothing matches."""
    table = rows(options.ops, options.mode, options.file)
    if not table:
        print(f"densecore certificates: no certificate matches {' '.join(options.ops) or options.mode}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([row.to_json() for row in table], indent=1))
    elif options.markdown:
        print(markdown(table, options.file), end="")
    else:
        _print_table(table)
    return 0


def _print_table(table: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(title="swept against the reference wheel")
    for column in _COLUMNS:
        shown.add_column(column, overflow="fold", justify="right" if column in ("calls", "elements") else "left")
    for row in table:
        shown.add_row(*row.cells())
    console = Console(width=None if sys.stdout.isatty() else 200)  # a pipe has no width
    console.print(shown)
    console.print(totals(table))
