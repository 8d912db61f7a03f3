"""A study as one self-contained HTML page: no script, no request, light and dark by the reader's setting."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from string import Template

from torch_densecore.overrides.attribute.result import Row
from torch_densecore.overrides.attribute.study import Study
from torch_densecore.overrides.attribute.table import COLUMNS, cells, number

TEMPLATE = Path(__file__).with_name("page.html")
WIDTH, LEFT, RIGHT, BAR, LINES_HEIGHT, TOP, BOTTOM = 1100, 300, 110, 22, 300, 12, 28
MAX_LINES = 8


def render(study: Study, found: list[Row]) -> str:
    """The page."""
    steps = len(study.results().get("baseline", {}).get("steps", []))
    head = "".join(f"<th{' class=n' if i else ''}>{escape(column)}</th>" for i, column in enumerate(COLUMNS))
    body = "".join(_table_row(row) for row in found)
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=f"What {study.plan.to} changes, op by op",
        command=escape(" ".join(study.plan.command)),
        about=f"{steps} steps; each row flips one thing alone from densecore to {escape(study.plan.to)}",
        bars=_bars([row for row in found if row.status == "run"]),
        lines=_lines([row for row in found if row.status == "run" and any(row.losses or [])][:MAX_LINES]),
        table=f"<tr>{head}</tr>{body}",
    )


def _table_row(row: Row) -> str:
    first, *rest = cells(row)
    ops = escape(" ".join(row.ops))
    return (
        f'<tr class="{row.status}"><td title="{ops}"><code>{escape(first)}</code></td>'
        + "".join(f"<td class=n>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
    )


def _bars(rows: list[Row]) -> str:
    """Loss difference after the last step, logarithmic; without losses, the share of parameters or outputs that differ."""
    by_loss = any(row.loss_difference for row in rows)
    values = [abs(row.loss_difference or 0.0) if by_loss else _share_off(row) for row in rows]
    if not any(values):
        return "<p>No flip changed what was seen.</p>"
    low, high = _decades(values)
    width = WIDTH - LEFT - RIGHT
    height = TOP + BAR * len(rows) + BOTTOM
    parts = [_grid(low, high, LEFT, width, TOP + BAR * len(rows), height, by_loss)]
    for i, (row, value) in enumerate(zip(rows, values, strict=True)):
        y = TOP + BAR * i
        parts.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(row.name)}</text>')
        length = width * (math.log10(value) - low) / (high - low) if value else 0
        sign = "minus" if (row.loss_difference or 0) < 0 else "plus"
        parts.append(f'<rect class="{sign}" x="{LEFT}" y="{y + 4}" width="{max(length, 1):.1f}" height="{BAR - 8}"/>')
        label = number(row.loss_difference) if by_loss else f"{100 * value:.3g}%"
        parts.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 15}">{escape(label)}</text>')
    title = "Loss difference after the last step (logarithmic)" if by_loss else "Share of the parameters or outputs that differ"
    return f'<h2>{title}</h2><div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg></div>'


def _share_off(row: Row) -> float:
    if row.parameters_off is not None and row.parameters:
        return row.parameters_off / row.parameters
    return (row.outputs_off or 0) / max(row.outputs, 1)


def _lines(rows: list[Row]) -> str:
    """Size of the loss difference, step by step."""
    steps = max((len(row.losses or []) for row in rows), default=0)
    if steps < 2:
        return ""
    low, high = _decades([abs(value) for row in rows for value in row.losses or [] if value])
    left, width, height = 70, WIDTH - 70 - 300, LINES_HEIGHT - TOP - BOTTOM
    parts = []
    for decade in range(low, high + 1):
        y = TOP + height * (high - decade) / (high - low)
        parts.append(f'<path class="axis" d="M{left} {y:.1f}h{width}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">1e{decade}</text>')
    for i, row in enumerate(rows):
        path, pen = [], "M"
        for step, value in enumerate(row.losses or []):
            if not value:  # equal: no place on a logarithmic axis
                pen = "M"
                continue
            x = left + width * step / (steps - 1)
            y = TOP + height * (high - math.log10(abs(value))) / (high - low)
            path.append(f"{pen}{x:.1f} {y:.1f}h.1")
            pen = "L"
        y = TOP + 16 + 20 * i
        parts.append(f'<path class="line l{i}" d="{"".join(path)}"/><path class="line l{i}" d="M{left + width + 16} {y - 4}h18"/>')
        parts.append(f'<text x="{left + width + 40}" y="{y}">{escape(row.name)}</text>')
    for share in (0, 0.5, 1):
        x = left + width * share
        step = round(1 + share * (steps - 1))
        parts.append(f'<text x="{x:.0f}" y="{LINES_HEIGHT - 8}" text-anchor="middle">step {step}</text>')
    return (
        "<h2>Size of the loss difference, step by step</h2>"
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {LINES_HEIGHT}" role="img">{"".join(parts)}</svg></div>'
    )


def _grid(low: int, high: int, left: int, width: int, bottom: int, height: int, as_power: bool) -> str:
    parts = []
    for decade in range(low, high + 1):
        x = left + width * (decade - low) / (high - low)
        label = f"1e{decade}" if as_power else f"{100 * 10.0**decade:.3g}%"
        parts.append(f'<path class="axis" d="M{x:.1f} {TOP}V{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    return "".join(parts)


def _decades(values: list[float]) -> tuple[int, int]:
    """The powers of ten around the values that are not 0; at least one decade."""
    logs = [math.log10(value) for value in values if value]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low - (low == min(logs)), max(high, low + 1)
