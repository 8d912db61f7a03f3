"""The comparison as JSON data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .comparison import Comparison
from .terminal import ordered, verdict_text


def as_json(result: Comparison) -> dict[str, Any]:
    """Everything that `compare` found, for programs. Event numbers are those of the files."""
    return {
        "densecore_diff": 1,
        "equal": not result.differ and not result.problems,
        "summary": verdict_text(result)[0],
        "a": _file(result.a),
        "b": _file(result.b),
        "environment": [{"name": n, "a": a, "b": b} for n, a, b in result.environment],
        "calls": dict(result.verdicts),
        "matched_by": dict(result.passes),
        "origins": [_without_inf(asdict(origin)) for origin in ordered(result.origins)],
        "operators": {op: dict(counts) for op, counts in result.by_op.items()},
        "unmatched": [dict(zip(("side", "event", "op", "module"), entry, strict=True)) for entry in result.unmatched],
        "generator_steps": result.rng_steps,
        "accumulation": [{"step": s, "a": a, "b": b} for s, a, b in result.accumulation],
        "other_layouts": result.layouts,
    }


def _file(reader: Any) -> dict[str, Any]:
    summary = reader.summary
    return {
        "path": str(reader.path), "events": summary.events, "status": summary.status, "error": summary.error,
        "problem": summary.problem, "notes": summary.notes, "environment": reader.environment,
    }  # fmt: skip


def _without_inf(origin: dict[str, Any]) -> dict[str, Any]:
    difference = origin["difference"]
    if difference["max_ulp"] == float("inf"):
        difference["max_ulp"] = None  # a NaN against a number
    return origin
