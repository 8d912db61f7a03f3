"""`densecore selfcheck`: does the device give the reference's bits on this machine?

On a Mac with Apple silicon, every certified op runs on the device and with torch's own CPU kernel, on the same inputs: that is a
comparison with the reference itself. On any other host the results are compared with `selfcheck.json`, digests of what the
reference wheel gave for the same inputs in the emulator: that shows that this host computes as others do, and no more.

One line at the end names version, system, profile, ops, elements and a hash of all results, for pasting into an issue.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import xxhash
from torch.utils._pytree import tree_leaves
from tqdm import tqdm

from . import profile as profiles
from .certify import bits, certificates, specs
from .certify.comparison import Call, compare, oracle_for, outcome, reference_results, resolve, run_on

STORED = Path(__file__).with_name("selfcheck.json")
CASES = 6  # of each op and dtype, spread over the quick sweep's


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs="*", help="certified ops such as aten::exp (default: all)")
    parser.add_argument("--against", choices=("auto", "cpu", "stored"), default="auto",
                        help="this host's CPU ops or the stored digests (auto: the CPU on a Mac)")  # fmt: skip
    parser.add_argument("--write", action="store_true", help="ask the emulated reference wheel and write the stored digests")


class HostCpu:
    """This host's own CPU ops, in the place of an `Oracle`."""

    @property
    def num_threads(self) -> int:
        return torch.get_num_threads()

    @num_threads.setter
    def num_threads(self, count: int) -> None:
        torch.set_num_threads(count)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def run(self, op: str, *args: Any, **kwargs: Any) -> Any:
        """The op's value; nothing about it is modelled."""
        return SimpleNamespace(value=resolve(op)(*args, **kwargs), provenance=set(), pure=True)


@dataclass
class Result:
    """One op and dtype. `missing`: why nothing was compared."""

    op: str
    dtype: str
    elements: int = 0
    off: int = 0
    problem: str = ""
    missing: str = ""


@dataclass
class Summary:
    """All results, and a hash over everything that the device computed."""

    results: list[Result] = field(default_factory=list)
    state: Any = field(default_factory=xxhash.xxh64)

    @property
    def problems(self) -> list[Result]:
        return [r for r in self.results if r.problem]

    @property
    def compared(self) -> list[Result]:
        return [r for r in self.results if not r.missing]


def certified(patterns: list[str]) -> list[tuple[str, str]]:
    """(op, dtype) of every certificate whose op is wanted."""
    found = {(c.op, c.dtype) for c in certificates.load_all() if c.op in specs.SPECS}
    return sorted(pair for pair in found if not patterns or pair[0] in patterns)


def calls(op: str, dtype: str) -> list[Call]:
    """The inputs of one op and dtype, the same on every host."""
    cases = specs.spec(op).cases(getattr(torch, dtype), quick=True)
    step = max(1, len(cases) // CASES)
    return [case() for case in cases[::step][:CASES]]


def digest(value: Any, state: Any = None) -> Any:
    """Adds every tensor's dtype, shape and bits (any NaN as one) and every other value to an XXH64 state."""
    state = state or xxhash.xxh64()
    for leaf in tree_leaves(value):
        if not isinstance(leaf, torch.Tensor):
            state.update(repr(leaf).encode())
            continue
        words = bits.words(leaf).clone()
        if leaf.is_floating_point():
            words[leaf.isnan()] = -1 if words.dtype != torch.uint8 else 255
        state.update(f"{leaf.dtype}{list(leaf.shape)}".encode())
        state.update(words.numpy().tobytes())
    return state


def count(value: Any) -> int:
    """Elements of all tensors."""
    return sum(leaf.numel() for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def digest_of_inputs(made: Iterable[Call]) -> str:
    """Names the inputs; an `out` tensor holds nothing yet."""
    return digest([(c.args, {k: v for k, v in c.kwargs.items() if k != "out"}) for c in made]).hexdigest()


def run_calls(op: str, made: Iterable[Call], run: Any, threads: Any) -> list[Any]:
    """What `run(op, call)` gives for every call, or the word "raised"; `threads(n)` is told each call's threads first."""
    values = []
    for call in made:
        with profiles.use(threads=call.threads or profiles.current().threads):
            threads(profiles.current().threads)
            value, error = outcome(lambda call=call: run(op, call))
        values.append("raised" if error is not None else value)
    return values


def against_cpu(op: str, dtype: str, summary: Summary) -> Result:
    """The device beside this host's CPU op, element by element."""
    made = calls(op, dtype)
    before = torch.get_num_threads()
    try:
        report = compare(op, made, oracle=HostCpu())  # type: ignore[arg-type]
    finally:
        torch.set_num_threads(before)
    digest(run_calls(op, made, run_on(), lambda n: None), summary.state)
    return Result(op, dtype, report.elements, report.off, "" if report.ok else str(report))


def against_stored(op: str, dtype: str, stored: dict[str, Any], summary: Summary) -> Result:
    """The device beside what the reference wheel gave in the emulator."""
    entry = stored["ops"].get(op, {}).get(dtype)
    if entry is None:
        return Result(op, dtype, missing="no stored digest")
    made = calls(op, dtype)
    if digest_of_inputs(made) != entry["inputs"]:
        return Result(op, dtype, missing="this host makes other inputs")
    values = run_calls(op, made, run_on(), lambda n: None)
    digest(values, summary.state)
    same = digest(values).hexdigest() == entry["results"]
    advice = f"{op} {dtype}: the results' digest is not the reference's; `densecore certify {op}` shows the element"
    return Result(op, dtype, count(values), 0 if same else count(values), "" if same else advice)


def stored_entry(op: str, dtype: str) -> dict[str, Any]:
    """What the reference wheel gives, for `selfcheck.json`."""
    oracle = oracle_for(profiles.current().torch)
    modelled: set[str] = set()

    def run(op: str, call: Call) -> Any:
        result, value = reference_results(oracle, op, call)
        modelled.update(result.provenance)
        return value

    made = calls(op, dtype)
    inputs = digest_of_inputs(made)
    values = run_calls(op, made, run, lambda n: setattr(oracle, "num_threads", n))
    return {"inputs": inputs, "elements": count(values), "results": digest(values).hexdigest(), "modelled": sorted(modelled)}


def read_stored() -> dict[str, Any]:
    """The content of `selfcheck.json`."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def write(pairs: list[tuple[str, str]], kept: dict[str, dict[str, Any]]) -> int:
    """Writes `selfcheck.json` from the oracle. kept: entries that stay if their op is not among `pairs`."""
    made: dict[str, dict[str, Any]] = {}
    for op, dtype in tqdm(pairs, unit="op"):
        made.setdefault(op, {})[dtype] = stored_entry(op, dtype)
    ops = dict(sorted({**kept, **made}.items()))
    text = json.dumps({"profile": profiles.current().describe(), "ops": ops}, indent=1)
    STORED.write_text(text + "\n", encoding="utf-8")
    print(f"{len(pairs)} ops and dtypes written to {STORED}")
    return 0


def is_reference_machine() -> bool:
    """Whether this host's CPU ops are the reference: macOS on arm64, with the profile's torch release."""
    release = torch.__version__.partition("+")[0]
    return sys.platform == "darwin" and platform.machine() == "arm64" and release == profiles.current().torch


def line(summary: Summary, with_cpu: bool) -> str:
    """The line to paste."""
    try:
        own = version("torch_densecore")
    except PackageNotFoundError:
        own = "(not installed)"
    current = profiles.current()
    other = "this machine's CPU ops" if with_cpu else "stored digests of the emulated reference wheel"
    elements, off = sum(r.elements for r in summary.compared), sum(r.off for r in summary.compared)
    return (
        f"densecore selfcheck {own}, torch {torch.__version__}, {platform.platform()}, {current.name}, {current.threads} threads, "
        f"against {other}: {len(summary.compared)} ops and dtypes, {elements} elements, {off} off, "
        f"{len(summary.problems)} with a problem, results {summary.state.hexdigest()}"
    )


def _checked(pairs: list[tuple[str, str]], with_cpu: bool, summary: Summary) -> Iterator[Result]:
    stored = {} if with_cpu else read_stored()
    for op, dtype in tqdm(pairs, unit="op", disable=None):
        yield against_cpu(op, dtype, summary) if with_cpu else against_stored(op, dtype, stored, summary)


def main(args: argparse.Namespace) -> int:
    pairs = certified(args.ops)
    if not pairs:
        raise SystemExit(f"densecore selfcheck: no certificate for {' '.join(args.ops)}")
    if args.write:
        return write(pairs, read_stored()["ops"] if args.ops else {})
    with_cpu = args.against == "cpu" or (args.against == "auto" and is_reference_machine())
    if with_cpu and not is_reference_machine():
        print("This is no Mac with the reference's torch: where its CPU ops differ, the device need not be wrong.")
    summary = Summary()
    summary.results.extend(_checked(pairs, with_cpu, summary))
    for result in summary.problems:
        print(result.problem)
    for result in summary.results:
        if result.missing:
            print(f"not compared: {result.op} {result.dtype}: {result.missing}")
    if not with_cpu:
        print("Compared with stored digests; whether a Mac's own CPU gives them is for `densecore selfcheck` on a Mac to show.")
    print(line(summary, with_cpu))
    return 1 if summary.problems or not summary.compared else 0
