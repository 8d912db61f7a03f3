"""`densecore overrides`: what is in force, and where each came from."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from torch_densecore.overrides import opnames, scope
from torch_densecore.overrides.errors import OverrideError
from torch_densecore.overrides.precedence import Choice, choices_by_op


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that put overrides into force, for every command that runs a program."""
    parser.add_argument(
        "--override", metavar="OPS=MODE", action="append", default=[],
        help="compute ops otherwise: mm=host, *softmax*=oracle, @blas=check:host, transformer.h.3.*:mm=host, "
        "sum={lanes=8}; several by commas or by repeating the option",
    )  # fmt: skip
    parser.add_argument("--override-file", metavar="FILE", action="append", default=[], help="overrides in a TOML or YAML file")


def to_environment(args: argparse.Namespace) -> None:
    """By the environment, so that processes that the program starts are set up alike. Commas within braces stay together."""
    if args.override:
        os.environ[scope.FLAGS] = ";".join(args.override)
    if args.override_file:
        os.environ[scope.FILES] = os.pathsep.join(os.path.abspath(path) for path in args.override_file)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("--groups", action="store_true", help="list the groups and their ops instead")
    parser.add_argument("--ops", action="store_true", help="list every op that is concerned, and what happens to it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(args: argparse.Namespace) -> int:
    to_environment(args)
    try:
        scope.apply()
    except OverrideError as error:
        print(f"densecore overrides: {error}", file=sys.stderr)
        return 2
    if args.groups:
        _show(args.json, "groups", [{"group": f"@{name}", "ops": " ".join(ops)} for name, ops in opnames.groups().items()])
    elif args.ops:
        _show(args.json, "ops", _op_rows())
    else:
        _show(args.json, "overrides", _rule_rows())
    return 0


def _rule_rows() -> list[dict[str, Any]]:
    """Strongest first."""
    rules = [rule for layer in scope.layers_in_force() for rule in layer]
    return [
        {"override": str(rule), "from": rule.source, "ops": len(rule.match.ops), "such as": " ".join(rule.match.ops[:3])}
        for rule in reversed(rules)
    ]


def _op_rows() -> list[dict[str, Any]]:
    found = choices_by_op(scope.layers_in_force())
    return [
        {"op": op, "within": " and ".join(c.scopes), "mode": _mode(c), "decided by": c.decided_by.described}
        for op, choices in sorted(found.items())
        for c in choices
    ]


def _mode(choice: Choice) -> str:
    fields = ", ".join(f"{name}={value}" for name, value in choice.fields)
    mode = str(choice.decided_by.setting) if choice.mode == "check" and not fields else choice.mode
    return f"{mode}, {fields}" if fields else mode


def _show(as_json: bool, title: str, rows: list[dict[str, Any]]) -> None:
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    if not rows:
        print(f"no {title} in force")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 200).print(table)  # a pipe has no width
