"""One run of a study: `python -m torch_densecore.overrides.attribute.child JOB.json`. Not meant to be called by hand."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from torch_densecore import _C, launcher
from torch_densecore.overrides import check, report
from torch_densecore.overrides.attribute.observer import Observer, StopRun, compare_parameters, save_parameters


def main(job_file: str) -> int:
    """Runs the job's program; what was observed is written in any case, and the exit code says whether the program failed."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    report.silence()
    check.quiet = True
    launcher.set_up()
    observer = Observer(job["steps"])
    observer.start()
    error = _run(job["command"])
    observer.stop()
    out: dict[str, Any] = {"error": error}
    if not error:
        out |= _results(observer, Path(job["parameters"]), job["store"])
    partial = Path(job["out"]).with_suffix(".partial")
    partial.write_text(json.dumps(out), encoding="utf-8")
    partial.replace(job["out"])
    return 1 if error else 0


def _run(command: list[str]) -> str | None:
    """What went wrong, or None."""
    try:
        code = launcher.run(command)
    except StopRun:
        return None
    except SystemExit as stop:
        code = stop.code
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:500]
    return None if code in (None, 0) else f"the script ended with exit code {code}"


def _results(observer: Observer, stored: Path, store: bool) -> dict[str, Any]:
    parameters = observer.parameters()
    if store:
        save_parameters(parameters, stored)
    elif parameters:
        observer.seen.parameters = compare_parameters(parameters, stored)
    totals = {op: vars(found) for op, found in check.totals().items()}
    calls = {op: count for op, count in _C.overridden_calls() if count}
    return {**observer.seen.to_json(), "differences": totals, "calls": calls}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
