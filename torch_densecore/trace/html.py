"""The comparison as one self-contained HTML page: no script, no request, light and dark by the reader's setting."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from .comparison import ORIGIN_KINDS, SAME, Comparison, Origin
from .terminal import MEANING, ordered, remarks, short_shapes, size_text, verdict_text

TEMPLATE = Path(__file__).with_name("report.html")
CLASSES = {"only a": "alone", "only b": "alone", "not replayed": "uncertain"}  # verdict -> colour class; others are their own
MAX_ORIGINS = 500
MAX_STEPS = 200
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 1100, 190, 56, 24, 10  # of one plot
BINS = 500


def render(result: Comparison, explanations: dict[tuple[int, int], str] | None = None) -> str:
    """The page. `explanations`: text by (event in a, event in b), from `explain`."""
    text, color = verdict_text(result)
    page = Template(TEMPLATE.read_text(encoding="utf-8"))
    return page.substitute(
        title="Why do two runs differ?" if result.differ else "Two equal runs",
        files=f"a: {_run(result.a)}<br>b: {_run(result.b)}",
        verdict=escape(text),
        verdict_color="equal" if color == "green" else "origin",
        counts="".join(_count(name, result.verdicts[name]) for name in MEANING if result.verdicts[name]),
        remarks=_remarks(result),
        origins=_origins(result, explanations or {}),
        plot=_plots(result),
        environment=_environment(result),
        modules=_modules(result),
        operators=_operators(result),
        footer=f"densecore diff; format {result.a.header['densecore_trace']}. Differences marked "
        "“sampled” are counted over evenly spaced elements of each output, the others over all.",
    )


def _run(reader: Any) -> str:
    environment = reader.environment
    cpu, torch, system = (environment.get(name, {}) for name in ("cpu", "torch", "system"))
    words = [
        str(reader.path),
        cpu.get("model"),
        cpu.get("capability"),
        system.get("os"),
        f"torch {torch.get('version')}",
    ]
    return escape(" · ".join(str(word) for word in words if word))


def _count(name: str, count: int) -> str:
    return f'<div class="count"><b class="t-{CLASSES.get(name, name)}">{count}</b><span title="{MEANING[name]}">{name}</span></div>'


def _remarks(result: Comparison) -> str:
    items = [f"<li>{escape(remark)}</li>" for remark in remarks(result)]
    return f"<h2>Remarks</h2><ul>{''.join(items)}</ul>" if items else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    return (
        f'<div class="scroll"><table><tr>{"".join(head)}</tr>'
        + "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
        + "</table></div>"
    )


def _origins(result: Comparison, explanations: dict[tuple[int, int], str]) -> str:
    if not result.origins:
        return ""
    names = ("step", "call a / b", "operator", "where", "times", "kind", "difference")
    head = [f"<th{_number(name)}>{name}</th>" for name in names]
    rows = [_origin_row(origin, explanations.get(origin.first)) for origin in ordered(result.origins)[:MAX_ORIGINS]]
    more = len(result.origins) - MAX_ORIGINS
    note = f"<p>… {more} more in the JSON output.</p>" if more > 0 else ""
    return f"<h2>Where differences begin</h2>{_table(head, rows)}{note}"


def _number(name: str) -> str:
    return ' class="n"' if name in ("step", "times", "call a / b") else ""


def _origin_row(origin: Origin, explanation: str | None) -> list[str]:
    where = f"{escape(origin.module or '(no module)')}, {origin.phase}<br><span class=explain>{escape(origin.source)}</span>"
    size = escape(size_text(origin.difference))
    if origin.detail:
        size += f"<br><span class=explain>{escape(origin.detail)}</span>"
    said = f"</tr><tr class=said><td></td><td colspan=6>{escape(explanation)}</td>" if explanation else ""
    shapes = escape(short_shapes(origin.shapes).replace("->", "→"))
    operator = f"<code>{escape(origin.op)}</code><br><span class=explain><code>{shapes}</code></span>"
    return [
        f"<td class=n>{origin.step}</td><td class=n>{origin.first[0]} / {origin.first[1]}</td><td class=s>{operator}</td>",
        f"<td class=s>{where}</td><td class=n>{len(origin.events)}</td>",
        f'<td class=kind title="{ORIGIN_KINDS[origin.kind]}">{origin.kind}</td><td class=s>{size}</td>{said}',
    ]


# -- plots ----------------------------------------------------------------------------------------------------------


def _plots(result: Comparison) -> str:
    if not len(result.places):
        return ""
    places = np.frombuffer(result.places, dtype=np.uint32)
    origin = np.frombuffer(result.is_origin, dtype=np.int8).astype(bool)
    shares = np.frombuffer(result.shares, dtype=np.float32) * 100
    ulps = np.log10(np.maximum(np.frombuffer(result.ulps, dtype=np.float32).astype(np.float64), 1e-300))
    ulps = np.where(np.frombuffer(result.ulps, dtype=np.float32) > 0, np.maximum(ulps, 0) + 0.3, 0)
    top = max(3, math.ceil(float(ulps.max())))
    decades = [(0.3 + d, f"1e{d}" if d > 3 else str(10**d)) for d in range(0, top + 1, max(1, top // 4))]
    legend = (
        '<p class="legend"><i class="c-origin"></i>a difference begins<i class="c-inherited"></i>inherited. '
        "Each mark is the largest value of neighbouring calls; ticks at the top: steps.</p>"
    )
    return (
        "<h2>Differing elements of each call’s outputs, %</h2>"
        + _plot(result, places, shares, origin, 100.0, [(0, "0"), (50, "50"), (100, "100")])
        + "<h2>Largest distance in ulp (logarithmic)</h2>"
        + _plot(result, places, ulps, origin, top + 0.4, decades)
        + legend
    )


def _plot(
    result: Comparison, places: np.ndarray, values: np.ndarray, origin: np.ndarray, top: float,
    ticks: list[tuple[float, str]],
) -> str:  # fmt: skip
    width, height = WIDTH - LEFT - 8, HEIGHT - BOTTOM - TOP
    total = max(result.calls, 1)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><g>']
    for value, label in ticks:
        y = TOP + height * (1 - min(value, top) / top)
        parts.append(f'<path class="axis" d="M{LEFT} {y:.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for step in list(result.steps)[:: max(1, len(result.steps) // 100)]:
        parts.append(f'<path class="axis" d="M{LEFT + width * step / total:.1f} {TOP}v6"/>')
    bins = min(BINS, total)
    bar = max(1.2, width / bins * 0.8)
    for marks, name in ((~origin, "inherited"), (origin, "origin")):
        heights = np.zeros(bins)
        np.maximum.at(heights, (places[marks].astype(np.int64) * bins) // total, np.maximum(values[marks], top * 0.012))
        rects = [
            f"M{LEFT + width * i / bins:.1f} {TOP + height:.1f}h{bar:.1f}v{-height * min(h, top) / top:.1f}h{-bar:.1f}z"
            for i, h in enumerate(heights)
            if h
        ]
        parts.append(f'<path class="f-{name}" d="{"".join(rects)}"/>')
        if name == "origin":
            parts += [
                _pin(LEFT + width * i / bins + bar / 2, TOP + height * (1 - min(h, top) / top)) for i, h in enumerate(heights) if h
            ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        anchor = {0: "start", 1: "end"}.get(share, "middle")
        parts.append(
            f'<text x="{LEFT + width * share:.0f}" y="{HEIGHT - 6}" text-anchor="{anchor}">call {int(share * (total - 1))}</text>'
        )
    return f'<div class="scroll">{"".join(parts)}</g></svg></div>'


def _pin(x: float, y: float) -> str:
    return f'<circle class="f-origin" cx="{x:.1f}" cy="{max(y - 4, 5):.1f}" r="4"/>'


# -- tables and trees -----------------------------------------------------------------------------------------------


def _environment(result: Comparison) -> str:
    if not result.environment:
        return "<h2>Environment</h2><p>The same on both sides.</p>"
    head = ["<th>what differs</th><th>a</th><th>b</th>"]
    rows = [[f"<td>{escape(n)}</td><td class=s>{_cell(a)}</td><td class=s>{_cell(b)}</td>"] for n, a, b in result.environment]
    return f"<h2>Environment</h2>{_table(head, rows)}"


def _cell(value: Any) -> str:
    return "–" if value is None else f"<code>{escape(str(value))}</code>"


def _modules(result: Comparison) -> str:
    steps: dict[int, dict[str, Counter[str]]] = defaultdict(dict)
    for (step, module), counts in result.by_module.items():
        steps[step][module] = counts
    shown = list(steps.items())[:MAX_STEPS]
    parts = [_step(step, modules, open_=i == 0) for i, (step, modules) in enumerate(shown)]
    note = f"<p>… {len(steps) - MAX_STEPS} more steps.</p>" if len(steps) > MAX_STEPS else ""
    legend = "".join(f'<i class="c-{CLASSES.get(n, n)}"></i>{n}' for n in MEANING if n not in ("only b", "not replayed"))
    return f'<h2>Steps and modules</h2><p class="legend">{legend.replace("only a", "no partner")}</p>{"".join(parts)}{note}'


def _step(step: int, modules: dict[str, Counter[str]], open_: bool) -> str:
    tree: dict[str, Any] = {}
    for module, counts in modules.items():
        node = tree
        for word in module.split(".") if module else ["(outside modules)"]:
            node = node.setdefault(word, {})
        node.setdefault("", Counter()).update(counts)
    total = sum(modules.values(), Counter())
    body = "".join(_node(name, child) for name, child in tree.items())
    return f"<details{' open' if open_ else ''}><summary>{_line(f'step {step}', total)}</summary>{body}</details>"


def _node(name: str, node: dict[str, Any]) -> str:
    children = {key: child for key, child in node.items() if key}
    while len(children) == 1 and "" not in node:  # transformer.h: one line, not two
        ((word, node),) = children.items()
        name = f"{name}.{word}"
        children = {key: child for key, child in node.items() if key}
    total = _total(node)
    if not children:
        return f'<div class="leaf">{_line(name, total)}</div>'
    body = "".join(_node(key, child) for key, child in children.items())
    return f"<details><summary>{_line(name, total)}</summary>{body}</details>"


def _total(node: dict[str, Any]) -> Counter[str]:
    total = Counter(node.get("", {}))
    for key, child in node.items():
        if key:
            total.update(_total(child))
    return total


def _line(name: str, counts: Counter[str]) -> str:
    total = sum(counts.values())
    bar = "".join(
        f'<i class="c-{CLASSES.get(verdict, verdict)}" style="width:{100 * counts[verdict] / total:.2f}%"></i>'
        for verdict in MEANING
        if counts[verdict]
    )
    words = ", ".join(f"{counts[v]} {v}" for v in MEANING if counts[v] and v not in SAME) or "equal"
    return f'<span class="name">{escape(name)}</span><span class="num">{words}</span><span class="bar">{bar}</span>'


def _operators(result: Comparison) -> str:
    if not result.by_op:
        return ""
    columns = [name for name in MEANING if name not in SAME and any(c[name] for c in result.by_op.values())]
    head = ["<th>operator</th>", *(f"<th class=n>{name}</th>" for name in columns)]
    by_origins = sorted(result.by_op.items(), key=lambda item: (-item[1]["origin"], -item[1].total()))
    rows = [
        [f"<td><code>{escape(op)}</code></td>", *(f"<td class=n>{counts[c] or ''}</td>" for c in columns)]
        for op, counts in by_origins
    ]
    return f"<h2>Operators that are not equal everywhere</h2>{_table(head, rows)}"
