"""What a study found, as rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch_densecore.overrides.attribute.study import ALL, Study, Unit


@dataclass
class Row:
    """One flip. None: not seen, or not run.

    calls_off, elements_off, max_ulp: of the op alone, on the unflipped run's inputs. loss_difference: flipped minus unflipped,
    after the last step. share: its size as a part of that with everything flipped (parts do not add up). first_step: the first
    step, from 1, after which the loss or a parameter differs. parameters_off: elements after the last step. outputs_off: values
    that left the device.
    """

    name: str
    ops: tuple[str, ...]
    calls: int
    calls_off: int
    elements_off: int
    max_ulp: float
    status: str  # "equal", "run", "failed", "waiting"
    error: str | None = None
    first_step: int | None = None
    loss_difference: float | None = None
    share: float | None = None
    parameters: int = 0
    parameters_off: int | None = None
    parameters_max_ulp: float | None = None
    outputs: int = 0
    outputs_off: int | None = None
    losses: list[float | None] | None = None  # difference by step


def rows(study: Study) -> list[Row]:
    """The largest effect first; ops that are equal last."""
    results = study.results()
    if "check" not in results:
        return []
    check, baseline = results["check"], results["baseline"]
    to_run = study.units_to_run()
    names = {unit.name for unit in to_run}
    units = [*to_run, *(unit for unit in study.units() if unit.name not in names)]
    found = [_row(unit, check, baseline, results.get(unit.name), unit.name in names) for unit in units]
    total = next((row.loss_difference for row in found if row.name == ALL), None)
    for row in found:
        if total and row.loss_difference is not None:
            row.share = abs(row.loss_difference) / abs(total)
    return sorted(found, key=_order)


def as_json(study: Study, found: list[Row]) -> dict[str, Any]:
    """Everything, for programs."""
    baseline = study.results().get("baseline", {})
    return {
        "densecore_attribution": 1,
        "command": study.plan.command,
        "steps": len(baseline.get("steps", [])),
        "flipped_to": study.plan.to,
        "losses": [step["loss"] for step in baseline.get("steps", [])],
        "rows": [asdict(row) for row in found],
    }


def _row(unit: Unit, check: dict[str, Any], baseline: dict[str, Any], result: dict[str, Any] | None, differs: bool) -> Row:
    totals = [check["differences"][op] for op in unit.ops if op in check["differences"]]
    row = Row(
        unit.name, unit.ops,
        calls=sum(check["calls"].get(op, 0) for op in unit.ops),
        calls_off=sum(total["calls"] for total in totals),
        elements_off=sum(total["elements_off"] for total in totals),
        max_ulp=max((total["max_ulp"] for total in totals), default=0.0),
        status="waiting" if differs else "equal",
    )  # fmt: skip
    if result is None:
        return row
    if result["error"]:
        row.status, row.error = "failed", result["error"]
        return row
    row.status = "run"
    _compare(row, baseline, result)
    return row


def _compare(row: Row, baseline: dict[str, Any], result: dict[str, Any]) -> None:
    pairs = list(zip(baseline["steps"], result["steps"], strict=False))
    row.losses = [_minus(b["loss"], a["loss"]) for a, b in pairs]
    row.loss_difference = row.losses[-1] if row.losses else None
    row.first_step = next((i for i, (a, b) in enumerate(pairs, 1) if a != b), None)
    parameters = result["parameters"]
    if parameters:
        row.parameters, row.parameters_off = parameters["total"], parameters["off"]
        row.parameters_max_ulp = parameters["max_ulp"]
    row.outputs = max(len(baseline["outputs"]), len(result["outputs"]))
    same = sum(a == b for a, b in zip(baseline["outputs"], result["outputs"], strict=False))
    row.outputs_off = row.outputs - same


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def _order(row: Row) -> tuple[Any, ...]:
    return (
        {"run": 0, "failed": 1, "waiting": 2, "equal": 3}[row.status], row.name != ALL,
        -abs(row.loss_difference or 0.0), -(row.parameters_off or 0), -(row.outputs_off or 0), -row.calls, row.name,
    )  # fmt: skip
