"""The runs of a study, each in a process of its own, and what is kept of them.

1. `baseline`: nothing is flipped.
2. `check`: every op that can be overridden is compared with the other mode on the unflipped run's own inputs. An op that is equal
   in every call changes nothing when it is flipped alone, so it needs no run. The run must repeat what the first one showed.
3. One run for every op (or group) that differed, and one for all of them together.

Results are written as they come, one JSON line a run, so that a study that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_densecore.overrides import opnames, scope
from torch_densecore.overrides.errors import OverrideError

ALL = "all of them"


@dataclass(frozen=True)
class Unit:
    """What is flipped together: the called overloads of an op, or of a group."""

    name: str
    ops: tuple[str, ...]

    def rules(self, mode: str) -> str:
        """As text for `--override`."""
        return ";".join(f"{op if '.' in op else op + '.default'}={mode}" for op in self.ops)


@dataclass
class Plan:
    """What a study is about; a study that goes on must be about the same."""

    command: list[str]
    steps: int
    to: str
    words: list[str]  # ops or groups to flip; none: every op that is called
    environment: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "version": 1}


class StudyError(RuntimeError):
    """The study cannot be made, or cannot go on."""


class Study:
    """A study in a folder. `run` makes or completes it."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self._child: subprocess.Popen[bytes] | None = None

    # -- what is kept -----------------------------------------------------------------------------------------------

    def open(self, restart: bool) -> None:
        """Makes the folder, or takes up the study in it. Raises StudyError if that is another one."""
        plan_file = self.folder / "plan.json"
        if restart:
            for path in (plan_file, self._results_file):
                path.unlink(missing_ok=True)
        if plan_file.exists():
            if json.loads(plan_file.read_text(encoding="utf-8")) != self.plan.to_json():
                raise StudyError(
                    f"{self.folder} holds a study of another command, or with other options or overrides: name another folder "
                    "with -o, or discard it with --restart"
                )
        else:
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
            plan_file.write_text(json.dumps(self.plan.to_json(), indent=1), encoding="utf-8")

    @property
    def _results_file(self) -> Path:
        return self.folder / "results.jsonl"

    def results(self) -> dict[str, dict[str, Any]]:
        """The finished runs by name: "check", "baseline", units."""
        found: dict[str, dict[str, Any]] = {}
        if self._results_file.exists():
            for line in self._results_file.read_text(encoding="utf-8").splitlines():
                try:
                    result = json.loads(line)
                except ValueError:  # the line that was being written when the study was killed
                    continue
                found[result["name"]] = result
        return found

    def _keep(self, name: str, result: dict[str, Any]) -> dict[str, Any]:
        result = {"name": name, **result}
        with open(self._results_file, "a+b") as file:
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a line that was cut off
                    file.write(b"\n")
            file.write(json.dumps(result).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return result

    # -- runs -------------------------------------------------------------------------------------------------------

    def run(self, progress: Callable[[str, int, int], None]) -> None:
        """Makes all runs that are missing. `progress(name, done, total)` is told before each."""
        self._once("baseline", "", progress, 0, 0)
        self._once("check", "", progress, 1, 0)
        self._must_repeat()
        units = self.units_to_run()
        total = 2 + len(units)
        for i, unit in enumerate(units):
            self._once(unit.name, unit.rules(self.plan.to), progress, 2 + i, total)
        progress("", total, total)

    def units_to_run(self) -> list[Unit]:
        """Those of which a call differed, and all of them together."""
        differences = self.results()["check"]["differences"]
        units = [unit for unit in self.units() if any(op in differences for op in unit.ops)]
        if len(units) < 2:
            return units
        ops = sorted({op for unit in units for op in unit.ops})
        return [*units, Unit(ALL, tuple(ops))]

    def units(self) -> list[Unit]:
        """Everything that may be flipped: of what the run called, what `plan.words` name."""
        calls = self.results()["check"]["calls"]
        called = [op for op in sorted(calls) if opnames.overridable().get(op)]
        groups = [word for word in self.plan.words if word.startswith("@")]
        found = [Unit(word, tuple(op for op in opnames.match(word).ops if op in called)) for word in groups]
        words = [word for word in self.plan.words if not word.startswith("@")]
        by_name: dict[str, list[str]] = {}
        for op in called if words or not groups else []:
            if not words or _is_named(op, words):
                by_name.setdefault(_form_of(op), []).append(op)
        found += [Unit(name, tuple(ops)) for name, ops in by_name.items()]
        return [unit for unit in found if unit.ops]

    def _once(self, name: str, rules: str, progress: Callable[[str, int, int], None], done: int, total: int) -> None:
        if name in self.results():
            return
        progress(name, done, total)
        result = self._run(name, rules)
        if name in ("baseline", "check") and result["error"]:
            raise StudyError(f"the {name} run failed: {result['error']} (see {self._log(name)})")
        self._keep(name, result)

    def _run(self, name: str, rules: str) -> dict[str, Any]:
        out = self.folder / "job.out.json"
        out.unlink(missing_ok=True)
        job = {
            "command": self.plan.command, "steps": self.plan.steps, "out": str(out), "store": name == "baseline",
            "parameters": str(self.folder / "baseline.safetensors"),
        }  # fmt: skip
        job_file = self.folder / "job.json"
        job_file.write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-m", "torch_densecore.overrides.attribute.child", str(job_file)]
        with open(self._log(name), "wb") as log:
            self._child = subprocess.Popen(command, env=self._environment(name, rules), stdout=log, stderr=subprocess.STDOUT)
            try:
                code = self._child.wait()
            except BaseException:
                self._stop_child()
                raise
        if out.exists():
            return json.loads(out.read_text(encoding="utf-8"))
        return {"error": f"the process ended with exit code {code}"}

    def _environment(self, name: str, rules: str) -> dict[str, str]:
        environment = {**os.environ, **self.plan.environment}
        if name == "check":  # below every other override: what the user has overridden stays as it is
            file = self.folder / "check.toml"
            file.write_text(f'"*" = "check:{self.plan.to}:log"\n', encoding="utf-8")
            files = environment.get(scope.FILES, "")
            environment[scope.FILES] = os.pathsep.join(filter(None, [str(file), files]))
        elif rules:
            environment[scope.FLAGS] = ";".join(filter(None, [environment.get(scope.FLAGS, ""), rules]))
        return environment

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.replace('::', '.').replace(' ', '_')}.txt"

    def _stop_child(self) -> None:
        if self._child is None or self._child.poll() is not None:
            return
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _must_repeat(self) -> None:
        results = self.results()
        baseline, check = results["baseline"], results["check"]
        if not baseline["steps"] and not baseline["outputs"]:
            raise StudyError(
                "nothing was seen: no optimizer step, no backward pass, and no value left the device. Does the script use device "
                f"'densecore' (--device=densecore)? See {self._log('baseline')}"
            )
        for what in ("steps", "outputs"):
            if baseline[what] != check[what]:
                seen = "losses or parameters" if what == "steps" else "outputs"
                raise StudyError(
                    f"the script does not repeat itself: two runs without any flip differ in their {seen}, so nothing can be "
                    "attributed. Fix its seeds, the order of its data and its state on disk (checkpoints that a run reads)"
                )


def plan_environment(words: dict[str, str | None]) -> dict[str, str]:
    """The variables that decide the runs: those given, and the user's own overrides."""
    kept = {name: os.environ[name] for name in (scope.ENVIRONMENT, scope.FLAGS, scope.FILES) if os.environ.get(name)}
    return {**kept, **{name: value for name, value in words.items() if value}}


def check_words(words: list[str]) -> None:
    """Raises OverrideError, with near matches, for a word that names no op or group."""
    for word in words:
        try:
            opnames.match(word)
        except OverrideError as error:
            raise OverrideError(f"{word}: {error}") from None


def _is_named(op: str, words: list[str]) -> bool:
    """Whether a word names the op, or another form of it."""
    for match in map(opnames.match, words):
        if op in match.ops or (match.closeness != opnames.OVERLOAD and _form_of(op) in map(_form_of, match.ops)):
            return True
    return False


def _form_of(op: str) -> str:
    """`aten::add` for the functional, in-place and out forms."""
    base = opnames.base_name(op)
    return base.removesuffix("_") if not base.endswith("__") else base
