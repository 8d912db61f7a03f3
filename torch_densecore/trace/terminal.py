"""The comparison for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .comparison import ORIGIN_KINDS, Comparison, Difference, Origin

MAX_ROWS = 40
MAX_SHAPES = 6  # tensors of a call that are listed
MEANING = {
    "equal": "same inputs, same outputs",
    "origin": "a difference begins here",
    "inherited": "inputs already differ",
    "absorbed": "inputs differ, outputs are equal",
    "uncertain": "inputs cannot be compared (another memory layout)",
    "only a": "no partner in the second trace",
    "only b": "no partner in the first trace",
    "not replayed": "its tensors were not stored",
}
STYLES = {"equal": "green", "origin": "bold red", "inherited": "yellow", "absorbed": "cyan"}


def show(result: Comparison, console: Console, *, all_origins: bool = False) -> None:
    """Prints environment, counts and origins."""
    parts: list[RenderableType] = []
    if result.environment:
        parts.append(_environment(result))
    parts.append(_counts(result))
    if result.origins:
        parts.append(_origins(result, None if all_origins else MAX_ROWS))
    parts += [Text(f"\n{line}" if i == 0 else line) for i, line in enumerate(remarks(result))]
    console.print(Group(*parts))
    console.print(verdict(result))


def verdict(result: Comparison) -> Panel:
    """The answer in one or two sentences."""
    text, style = verdict_text(result)
    return Panel(Text(text), border_style=style, expand=False)


def verdict_text(result: Comparison) -> tuple[str, str]:
    """(sentence, colour)."""
    calls = result.calls
    if result.problems:
        return "Unusable from the damaged line on:\n" + "\n".join(result.problems), "red"
    if not result.differ:
        text = f"Equal: all {calls} operator calls have the same bits."
        if result.incomplete:
            text += f" But {' and '.join(result.incomplete)} ends early: the run was killed."
        return text, "green"
    if not result.origins:
        alone = result.verdicts["only a"] + result.verdicts["only b"]
        return f"Different: {_several(alone, 'call')} without a partner; no matched call begins a difference.", "red"
    first = min(result.origins, key=lambda origin: origin.first)
    where = f" in {first.module}" if first.module else ""
    total = sum(len(origin.events) for origin in result.origins)
    return (
        f"Different: first at call {first.first[0]} (step {first.step}, {first.phase}): {first.op}{where}, "
        f"{first.source}: {ORIGIN_KINDS[first.kind]}.\n{_several(total, 'origin')} at "
        f"{_several(len(result.origins), 'place')}; {_several(result.verdicts['inherited'], 'call')} only inherited "
        "the difference.",
        "red",
    )


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size_text(difference: Difference) -> str:
    """`37 of 512 elements, max 1 ulp`; a sample is called one."""
    if not difference.elements:
        return "-"
    sample = "" if difference.exact else " sampled"
    if not difference.differing:
        return f"none of {difference.elements}{sample}"
    ulp = "NaN/number" if difference.max_ulp == float("inf") else f"{difference.max_ulp:.6g} ulp"
    return f"{difference.differing} of {difference.elements}{sample}, max {ulp}"


def short_shapes(shapes: str) -> str:
    """`shapes_of` with a long list of tensors cut short."""
    return " -> ".join(_short_list(side) for side in shapes.split(" -> "))


def _short_list(side: str) -> str:
    tensors = [f"{tensor}]" for tensor in side.removesuffix("]").split("], ")]
    return side if len(tensors) <= MAX_SHAPES else f"{', '.join(tensors[:2])}, ... ({len(tensors)} tensors)"


def _environment(result: Comparison) -> Table:
    table = Table(title="Environment differences", title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("what")
    table.add_column("a", overflow="fold")
    table.add_column("b", overflow="fold")
    for name, a, b in result.environment:
        table.add_row(name, _value(a), _value(b))
    return table


def _counts(result: Comparison) -> Table:
    table = Table(title="\nOperator calls", title_justify="left", show_edge=False, pad_edge=False, show_header=False)
    table.add_column("verdict")
    table.add_column("count", justify="right")
    table.add_column("meaning", style="dim")
    for name, meaning in MEANING.items():
        if result.verdicts[name]:
            table.add_row(Text(name, style=STYLES.get(name, "magenta")), str(result.verdicts[name]), meaning)
    matched = ", ".join(f"{name} {count}" for name, count in result.passes.items())
    table.add_row("matched by", "", matched)
    return table


def _origins(result: Comparison, limit: int | None) -> Table:
    table = Table(title="\nOrigins", title_justify="left", show_edge=False, pad_edge=False)
    for name in ("step", "call a/b", "operator", "module", "source"):
        table.add_column(name, overflow="fold")
    table.add_column("times", justify="right")
    table.add_column("kind")
    table.add_column("difference")
    for origin in ordered(result.origins)[:limit]:
        table.add_row(*map(escape, _origin_row(origin)))
    if limit is not None and len(result.origins) > limit:
        table.add_row("", "", f"... {len(result.origins) - limit} more (--all)")
    return table


def ordered(origins: Iterable[Origin]) -> list[Origin]:
    """By first appearance."""
    return sorted(origins, key=lambda origin: origin.first)


def _origin_row(origin: Origin) -> list[str]:
    module = origin.module if origin.phase == "forward" else f"{origin.module} ({origin.phase})".strip()
    size = size_text(origin.difference) if not origin.detail else f"{size_text(origin.difference)}; {origin.detail}"
    return [
        str(origin.step), f"{origin.first[0]}/{origin.first[1]}", origin.op.removeprefix("aten::"), module,
        origin.source, str(len(origin.events)), origin.kind, size,
    ]  # fmt: skip


def remarks(result: Comparison) -> list[str]:
    """What else is worth knowing: generators, accumulation order, layouts, notes and ends of the files."""
    lines = []
    if result.rng_steps:
        lines.append(f"The random generator differs at the start of step {_numbers(result.rng_steps)}.")
    for step, order_a, order_b in result.accumulation[:3]:
        lines.append(f"Gradients are accumulated in another order in step {step}: {_first_change(order_a, order_b)}.")
    if result.layouts:
        lines.append(
            f"{result.layouts} calls have tensors that lie differently in memory; "
            "record with --logical-order to compare them."
        )
    for reader in (result.a, result.b):
        lines += [f"{reader.path}: {note}" for note in reader.summary.notes]
        if reader.summary.error:
            lines.append(f"{reader.path}: the run ended with {reader.summary.error}")
    for path in result.incomplete:
        lines.append(f"{path}: the run was killed; compared up to its end.")
    return lines


def _first_change(a: list[str], b: list[str]) -> str:
    for x, y in zip(a, b, strict=False):
        if x != y:
            return f"{x or 'a parameter'} / {y or 'a parameter'}"
    return f"{len(a)} / {len(b)} gradients"


def _numbers(values: list[int]) -> str:
    return ", ".join(map(str, values[:5])) + (f" and {len(values) - 5} more" if len(values) > 5 else "")


def _value(value: Any) -> str:
    return "[dim]-[/dim]" if value is None else escape(str(value))
