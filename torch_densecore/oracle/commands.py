"""`densecore oracle`: ask the reference wheel for its bits."""

from __future__ import annotations

import argparse
import ast
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from .. import profile as profiles
from .api import CallResult, Oracle


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _literal(text: str) -> Any:
    """A Python literal; any other word is a string or a torch name such as float64."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        import torch

        named = getattr(torch, text.removeprefix("torch."), None)
        return named if isinstance(named, torch.dtype) else text


def _oracle(options: argparse.Namespace) -> Oracle:
    profile = profiles.load(options.profile) if options.profile else profiles.current()
    options.oracle = Oracle(profile, wheel=options.wheel, num_threads=options.threads)
    return options.oracle


def translation_report(oracle: Oracle) -> list[str]:
    """Lines about the translator's units, and about the guest code that the emulator executed."""
    cpu = oracle.machine.translated
    if cpu is None:
        return ["translation: off, everything is emulated"]
    done, describe = cpu.statistics, oracle.machine.describe
    lines = [
        f"translation: {done.loaded} units from the cache, {done.compiled} compiled ({done.promoted} of them optimised),"
        f" {done.seconds:.1f} s; emulated: {sum(done.steps.values())} instructions and {sum(done.handed_over.values())} runs"
    ]
    lines += [f"  {describe(pc)}: {count} times, {done.emulated.get(pc, (0, done.failed.get(pc, '')))[1]}"
              for pc, count in done.steps.most_common()]  # fmt: skip
    lines += [f"  {describe(pc)}: {count} times to the end of the run" for pc, count in done.handed_over.most_common()]
    return lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `densecore oracle`."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--profile", help="reference profile: a release such as 2.13.0, a name, or a JSON file")
    common.add_argument("--wheel", type=Path, help="use this wheel file")
    common.add_argument("--threads", type=int, help="intra-op threads, instead of the profile's")
    common.add_argument("--report", action="store_true", help="say what the translator did and what it left to the emulator")
    commands = parser.add_subparsers(dest="action", metavar="action", required=True)

    op = commands.add_parser("op", parents=[common], help="run one operator and show its bits", description=run_op.__doc__)
    op.add_argument("name", help="aten::name.overload")
    op.add_argument("--shape", type=_shape, action="append", default=[], help="random tensor argument, e.g. 4,37")
    op.add_argument("--arg", action="append", default=[], help="literal argument after the tensors")
    op.add_argument("--kwarg", action="append", default=[], metavar="NAME=VALUE")
    op.add_argument("--dtype", default="float32", help="of the random tensors")
    op.add_argument("--seed", type=int, default=0)

    ops = commands.add_parser("ops", parents=[common], help="list operators", description=list_ops.__doc__)
    ops.add_argument("word", help="part of the name")

    survey = commands.add_parser(
        "survey", parents=[common], help="compare this host with the reference", description=run_survey.__doc__
    )
    survey.add_argument("--op-db", action="store_true", help="run torch's operator database rather than a small GPT")
    survey.add_argument("--only", default="", help="entries of the database whose name contains this")
    survey.add_argument("--json", type=Path, help="also write the records to this file")
    survey.add_argument("--all", action="store_true", help="list the operators with equal bits too")

    program = commands.add_parser("program", parents=[common], help="run an exported program", description=run_program.__doc__)
    program.add_argument("file", type=Path, help="a torch.export.save file with example inputs")

    commands.add_parser("boot", parents=[common], help="fetch the wheel, boot, check", description=boot.__doc__)


def main(options: argparse.Namespace) -> int:
    """Run one action."""
    actions = {"op": run_op, "ops": list_ops, "survey": run_survey, "program": run_program, "boot": boot}
    try:
        status = actions[options.action](options)
        if options.report:
            print("\n".join(translation_report(options.oracle)))
        return status
    except (RuntimeError, KeyError, TypeError, ValueError, IndexError, NotImplementedError, MemoryError, OSError) as error:
        print(f"densecore oracle {options.action}: {error}", file=sys.stderr)
        return 2


def _bits_of(value: Any, count: int = 8) -> str:
    """The first elements as hex words."""
    from ..certify.bits import hexadecimal

    flat = value.reshape(-1)
    return " ".join(hexadecimal(flat[i : i + 1]) for i in range(min(count, flat.numel())))


def _show(result: CallResult) -> None:
    values = result.value if isinstance(result.value, (tuple, list)) else [result.value]
    for index, value in enumerate(values):
        if hasattr(value, "numel"):
            print(f"[{index}] {value.dtype} {tuple(value.shape)}\n{value}\n    bits {_bits_of(value)}")
        else:
            print(f"[{index}] {value!r}")
    print("provenance:", ", ".join(sorted(result.provenance)) or "nothing modelled")
    for call in result.blas:
        print(f"blas: {call}{' (provisional rule)' if call.small else ''}")
    if result.libm:
        print("libm:", ", ".join(f"{name} x{count}" for name, count in sorted(result.libm.items())))
    for warning in result.warnings:
        print("warning:", warning)
    print("parallel regions:", result.parallel_regions)


def run_op(options: argparse.Namespace) -> int:
    """Run one operator on random tensors, one per --shape, followed by the literal --arg values."""
    import torch

    oracle = _oracle(options)
    random = np.random.default_rng(options.seed)
    dtype = _literal(options.dtype)
    args: list[Any] = [torch.from_numpy(np.asarray(random.standard_normal(shape))).to(dtype) for shape in options.shape]
    args += [_literal(text) for text in options.arg]
    kwargs = {key: _literal(value) for key, _, value in (text.partition("=") for text in options.kwarg)}
    oracle.manual_seed(options.seed)
    print(oracle.schema(options.name).text)
    print("profile:", ", ".join(f"{k} {v}" for k, v in oracle.profile.describe().items()))
    _show(oracle.run(options.name, *args, **kwargs))
    return 0


def list_ops(options: argparse.Namespace) -> int:
    """List registered operators whose name contains a word, with their schemas."""
    oracle = _oracle(options)
    found = [name for name in oracle.operators() if options.word in name]
    for name in found:
        print(oracle.schema(name).text)
    return 0 if found else 1


def run_survey(options: argparse.Namespace) -> int:
    """Of the operators that a program uses, how many give the same bits in this host's torch and in the reference?"""
    from rich.console import Console
    from rich.table import Table

    from . import survey

    oracle = _oracle(options)
    program = "op_db" if options.op_db else "gpt"
    records = survey.survey(oracle, program, options.only)
    counts = survey.summary(records)
    table = Table(title=f"{program}: this host's torch against {oracle.profile.name}, {oracle.num_threads} threads")
    for column, justify in (
        ("op", "left"), ("calls", "right"), ("elements", "right"), ("off", "right"), ("max ulp", "right"),
        ("modelled", "left"), ("probable cause", "left"),
    ):  # fmt: skip
        table.add_column(column, justify=justify)
    for record in records:
        why = survey.cause(record.op) if record.off else "; ".join(record.failures)
        if options.all or record.off or record.failures:
            ulp = "nan" if record.max_ulp >= 1 << 62 else f"{record.max_ulp:,}"
            names = ", ".join(sorted(record.provenance))
            table.add_row(record.op, str(record.compared), f"{record.elements:,}", f"{record.off:,}", ulp, names, why)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table)
    console.print(", ".join(f"{name} {count}" for name, count in counts.items()))
    if options.json:
        survey.write(records, options.json, oracle, program)
    return 0


def run_program(options: argparse.Namespace) -> int:
    """Run an exported program (torch.export.save) in the oracle and compare its outputs with this host's."""
    import torch

    from ..certify import bits
    from .mode import OracleMode

    program = torch.export.load(str(options.file))
    args, kwargs = program.example_inputs
    module = program.module()
    mode = OracleMode(_oracle(options), fallback=True)
    with torch.no_grad():
        expected = module(*args, **kwargs)
        with mode:
            got = module(*args, **kwargs)
    for name, count in sorted(mode.counts.items()):
        print(f"{count:6d} {name}: {', '.join(sorted(mode.provenance[name])) or 'nothing modelled'}")
    for name in mode.skipped:
        print("ran on the host:", name)
    pairs = zip(torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(expected), strict=False)
    for index, (a, b) in enumerate(pairs):
        if isinstance(a, torch.Tensor):
            count, first = bits.first_difference(index, b, a)
            print(f"output {index}: {count} of {a.numel()} elements differ from the host{f'; {first}' if first else ''}")
    return 0


def boot(options: argparse.Namespace) -> int:
    """Fetch the wheel, make the snapshot, and check results that are exact on every platform."""
    start = time.perf_counter()
    oracle = _oracle(options)
    print(f"torch {oracle.wheel.version}, wheel SHA-256 {oracle.wheel.sha256}")
    print(f"booted in {time.perf_counter() - start:.2f} s, compiled helper {'yes' if oracle.machine.native else 'no'}")
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4) / 4
    checks = {
        "add": np.array_equal(oracle.call("aten::add.Tensor", x, x), x + x),
        "sqrt": np.array_equal(oracle.call("aten::sqrt", np.abs(x)), np.sqrt(np.abs(x))),
        "cat": np.array_equal(oracle.call("aten::cat", [x, x], 1), np.concatenate([x, x], 1)),
        "sort": np.array_equal(oracle.call("aten::sort", x, 1)[0], np.sort(x, 1)),
        "mm": np.array_equal(oracle.call("aten::mm", x, x), x @ x),
        "exp runs nothing modelled": oracle.run("aten::exp", x).pure,
        "mm uses BLAS": "sgemm" in oracle.run("aten::mm", x, x).provenance,
    }
    try:
        oracle.call("aten::mm", x, x[:3])
        checks["errors"] = False
    except RuntimeError as error:
        checks["errors"] = "cannot be multiplied" in str(error)
    for name, passed in checks.items():
        print(f"{'ok  ' if passed else 'FAIL'} {name}")
    return 0 if all(checks.values()) else 1
