"""Sweeps: all cases of an operator and dtype, divided among processes, resumable, with a progress bar."""

from __future__ import annotations

import ctypes
import hashlib
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from .. import overrides
from .. import profile as profiles
from ..oracle import cache
from . import specs
from .certificates import Certificate
from .comparison import DEVICE, compare, oracle_for

_CASES_PER_TASK = 24
_M_MMAP_THRESHOLD = -3  # <malloc.h>


@dataclass(frozen=True)
class Plan:
    """One sweep. shard: (i, n) takes every n-th task, counting from 1."""

    op: str
    dtype: str
    mode: str = "full"
    device: str = DEVICE
    shard: tuple[int, int] = (1, 1)

    def cases(self) -> list[Any]:
        """The numbered cases."""
        return _cases(self.op, self.dtype, self.mode)

    def tasks(self) -> list[tuple[int, int]]:
        """Ranges of case numbers of this shard."""
        count = len(self.cases())
        size = 1 if self.mode == "exhaustive" else _CASES_PER_TASK
        every = [(start, min(start + size, count)) for start in range(0, count, size)]
        return every[self.shard[0] - 1 :: self.shard[1]]


@lru_cache(maxsize=2)
def _cases(op: str, dtype: str, mode: str) -> list[Any]:
    """Every task of a sweep asks for the list; an exhaustive one has thousands of entries."""
    return specs.spec(op).cases(getattr(torch, dtype), mode == "quick", mode == "exhaustive")


@dataclass
class Tally:
    """What a sweep has seen so far; JSON-able and additive."""

    inputs: int = 0
    elements: int = 0
    off: int = 0
    max_ulp: int = 0
    both_raised: int = 0
    pure_inputs: int = 0
    provenance: list[str] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count another part in."""
        for name in ("inputs", "elements", "off", "both_raised", "pure_inputs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.max_ulp = max(self.max_ulp, other.max_ulp)
        self.provenance = sorted({*self.provenance, *other.provenance})
        self.threads = sorted({*self.threads, *other.threads})
        self.problems = (self.problems + other.problems)[:5]

    @property
    def ok(self) -> bool:
        """Whether nothing differed."""
        return not self.off and not self.problems


def run_task(plan: Plan, start: int, stop: int, profile: profiles.Profile) -> Tally:
    """Compare the cases of one range; runs in a worker process or in this one."""
    profiles.set_current(profile)
    if plan.device == DEVICE:
        from .. import strictness

        strictness.set_uncertified("error")  # a certificate is about the device's own kernels, not about this host's
    calls = [case() for case in plan.cases()[start:stop]]
    report = compare(plan.op, calls, run=plan.device, profile=profile)
    threads = sorted({call.threads or profile.threads for call in calls})
    problems = [] if report.ok else [f"cases {start}..{stop - 1}: {report}"]
    return Tally(
        report.calls, report.elements, report.off, report.max_ulp, report.both_raised, report.pure_calls,
        sorted(report.provenance), threads, problems,
    )  # fmt: skip


class Progress:
    """The finished tasks of a sweep, kept in the cache so that an interrupted sweep goes on where it was."""

    def __init__(self, plan: Plan, profile: profiles.Profile, fingerprint: str) -> None:
        text = json.dumps([asdict(plan), profile.to_json(), fingerprint])
        name = f"{plan.op.replace('::', '.')}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        self.path: Path = cache.cache_dir() / "certify" / name
        self.done: set[int] = set()
        self.tally = Tally()
        if self.path.is_file():
            data = json.loads(self.path.read_text())
            self.done, self.tally = set(data["done"]), Tally(**data["tally"])

    def finish(self, start: int, part: Tally) -> None:
        """Count a task in and remember it."""
        self.tally.add(part)
        self.done.add(start)
        cache.write_text(self.path, json.dumps({"done": sorted(self.done), "tally": asdict(self.tally)}))

    def clear(self) -> None:
        """Forget the sweep (it is complete, or failed and will be repeated after a change)."""
        self.path.unlink(missing_ok=True)


def fingerprint(device: str) -> str:
    """Identifies the code under judgement and the inputs, so that progress is not taken over from another build."""
    digest = hashlib.sha256(torch.__version__.encode())
    folder = Path(__file__).parent
    binaries = [] if device == "cpu" else sorted(folder.parent.glob("_C*.so"))
    for path in (*sorted(folder.glob("*.py")), *binaries):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def sweep(plan: Plan, profile: profiles.Profile, pool: Executor | None = None, bar: Any = None) -> Tally:
    """Run what is left of a plan; `bar` is a tqdm-like object that is advanced by cases."""
    progress = Progress(plan, profile, fingerprint(plan.device))
    tasks = plan.tasks()
    if bar is not None:
        bar.update(sum(stop - start for start, stop in tasks if start in progress.done))
    left = [task for task in tasks if task[0] not in progress.done]
    for start, stop, part in _results(plan, left, profile, pool):
        progress.finish(start, part)
        if bar is not None:
            bar.update(stop - start)
        if not part.ok:
            break
    progress.clear()
    return progress.tally


def _results(
    plan: Plan, tasks: list[tuple[int, int]], profile: profiles.Profile, pool: Executor | None
) -> Iterator[tuple[int, int, Tally]]:  # fmt: skip
    if pool is None:
        for start, stop in tasks:
            yield start, stop, run_task(plan, start, stop, profile)
        return
    futures: dict[Future[Tally], tuple[int, int]] = {pool.submit(run_task, plan, *task, profile): task for task in tasks}
    try:
        for future in as_completed(futures):
            yield (*futures[future], future.result())
    finally:
        for future in futures:
            future.cancel()


def worker_pool(jobs: int) -> ProcessPoolExecutor | None:
    """Processes that share the work; None for one job."""
    if jobs <= 1:
        return None
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=_prepare_worker)


def _prepare_worker() -> None:
    torch.set_num_threads(1)
    map_large_blocks()


def map_large_blocks() -> None:
    """Give every block of a megabyte or more a mapping of its own, which freeing it returns.

    glibc raises its threshold (128 KiB at first) to the largest block freed; the blocks of an exhaustive sweep then
    fragment the heap by gigabytes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc only; macOS has none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def describe(profile: profiles.Profile) -> dict[str, Any]:
    """The profile as a certificate carries it, with the overrides under which the sweep ran, if any."""
    active = overrides.active()
    return {**profile.describe(), "overrides": active} if active else profile.describe()


def certificate(plan: Plan, tally: Tally, profile: profiles.Profile) -> Certificate:
    """The certificate of a finished sweep."""
    shard = "" if plan.shard[1] == 1 else f"{plan.shard[0]}/{plan.shard[1]}"
    every = specs.spec(plan.op).exhaustive if plan.mode == "exhaustive" else None
    return Certificate(
        plan.op, plan.dtype, plan.mode, tally.inputs, tally.elements, tally.off, tally.both_raised, tally.pure_inputs,
        tally.provenance, describe(profile), oracle_for(profile.torch).wheel.sha256, shard, tally.threads,
        every.describe() if every else [],
    )  # fmt: skip
