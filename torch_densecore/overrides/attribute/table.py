"""A study in a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from torch_densecore.overrides.attribute.result import Row
from torch_densecore.overrides.attribute.study import Study

COLUMNS = (
    "flipped", "calls that differ", "elements, max ulp", "first step", "loss difference", "of all", "parameters that differ",
    "outputs that differ",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """The texts of a row's columns; `page.py` shows the same."""
    elements = f"{row.elements_off:,}, {ulps(row.max_ulp)}" if row.calls_off else "-"
    head = [row.name, f"{row.calls_off:,} of {row.calls:,}", elements]
    if row.status != "run":
        return [*head, {"equal": "equal: no run needed", "waiting": "not run yet", "failed": "failed"}[row.status], "", "", "", ""]
    return [*head, str(row.first_step or "none"), number(row.loss_difference), percent(row.share), parameters(row), outputs(row)]


def show(study: Study, found: list[Row]) -> None:
    """Prints the table and what it is about."""
    baseline = study.results().get("baseline", {})
    losses = [step["loss"] for step in baseline.get("steps", []) if step["loss"] is not None]
    steps = len(baseline.get("steps", []))
    table = Table(title=f"each flipped alone from densecore to {study.plan.to}, {steps} steps: {' '.join(study.plan.command)}")
    for i, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in found:
        style = {"failed": "red", "equal": "dim"}.get(row.status)
        table.add_row(*cells(row), style=style)
    console = Console(width=None if sys.stdout.isatty() else 170)
    console.print(table)
    if losses:
        console.print(f"last loss without a flip: {losses[-1]!r}. Differences are flipped minus unflipped; parts do not add up.")
    for row in found:
        if row.error:
            console.print(f"{row.name}: {row.error}", style="red", markup=False)


def ulps(distance: float | None) -> str:
    if distance is None or distance == float("inf"):
        return "NaN/number"
    return f"{distance:.0f} ulp" if distance < 1e6 else f"{distance:.2g} ulp"


def number(value: float | None) -> str:
    return "-" if value is None else "0" if value == 0 else f"{value:+.3g}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}%"


def parameters(row: Row) -> str:
    if row.parameters_off is None:
        return "-"
    if not row.parameters_off:
        return "none"
    return f"{100 * row.parameters_off / max(row.parameters, 1):.3g}%, max {ulps(row.parameters_max_ulp)}"


def outputs(row: Row) -> str:
    return f"{row.outputs_off} of {row.outputs}" if row.outputs else "-"
