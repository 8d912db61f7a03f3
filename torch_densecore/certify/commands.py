"""`densecore certify`: sweep operators through the device and the oracle; store a certificate where nothing differs."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path

from tqdm import tqdm

from .. import profile as profiles
from . import certificates, specs, sweep
from .comparison import DEVICE


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"expected i/n with 1 <= i <= n, not {text!r}")
    return int(index), int(count)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `densecore certify`."""
    parser.add_argument("ops", nargs="*", help="operators (aten::exp, or patterns such as 'aten::_foreach*'); default: all")
    parser.add_argument("--dtype", action="append", help="only this dtype (repeatable)")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="only the most telling sizes")
    mode.add_argument("--exhaustive", action="store_true", help="every bit pattern (elementwise, at most 32 bits)")
    parser.add_argument("--missing", action="store_true", help="only operators and dtypes without a certificate of this mode")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="i/n", help="only this part of the cases")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--profile", help="reference profile (default: the current one)")
    parser.add_argument("--device", default=DEVICE, help="device to judge; certificates are stored for densecore only")
    parser.add_argument("--out", type=Path, default=certificates.FILE, help="file of the certificates")
    parser.add_argument("--list", action="store_true", help="show the declared operators and the number of cases, and stop")


def _plans(options: argparse.Namespace) -> list[sweep.Plan]:
    mode = "quick" if options.quick else "exhaustive" if options.exhaustive else "full"
    if not options.ops:
        names = [n for n, s in specs.SPECS.items() if s.exhaustive or not options.exhaustive]
    else:
        names = [name for pattern in options.ops for name in _matching(pattern)]
    plans = []
    for name in dict.fromkeys(names):
        spec = specs.spec(name)
        for dtype in spec.claimed() if options.device == DEVICE else spec.dtypes:
            word = str(dtype).removeprefix("torch.")
            small = dtype.itemsize <= 4 or not options.exhaustive
            if (not options.dtype or word in options.dtype) and small:
                plans.append(sweep.Plan(name, word, mode, options.device, options.shard))
    return [plan for plan in plans if not (options.missing and _is_certified(plan, options.out))]


def _is_certified(plan: sweep.Plan, path: Path) -> bool:
    return any((c.dtype, c.mode, c.shard) == (plan.dtype, plan.mode, "") for c in certificates.load(plan.op, path))


def _matching(pattern: str) -> list[str]:
    qualified = pattern if "::" in pattern else f"aten::{pattern}"
    found = [name for name in specs.SPECS if fnmatchcase(name, qualified)]
    return found or [specs.spec(pattern).op]  # raises with near names


def has_device() -> bool:
    """Whether the device is registered with torch."""
    import torch

    return torch._C._get_privateuse1_backend_name() == DEVICE


def main(options: argparse.Namespace) -> int:
    """Run the sweeps; exit code 1 when an element differs, 2 when the arguments are wrong."""
    try:
        plans = _plans(options)
        profile = profiles.load(options.profile) if options.profile else profiles.current()
    except (KeyError, ValueError) as error:
        print(f"densecore certify: {error.args[0]}", file=sys.stderr)
        return 2
    if not plans and options.missing:
        print("nothing is missing")
        return 0
    if not plans:
        print("densecore certify: no declared operator has these dtypes", file=sys.stderr)
        return 2
    if options.list:
        for plan in plans:
            print(f"{plan.op} {plan.dtype} {plan.mode}: {len(plan.cases())} cases")
        return 0
    if options.device == DEVICE and not has_device():
        print("densecore certify: device densecore is not available (the extension is not built)", file=sys.stderr)
        return 2
    sweep.map_large_blocks()
    pool = sweep.worker_pool(options.jobs)
    try:
        failed = [plan for plan in plans if not _certify(plan, profile, pool, options.out)]
    except KeyboardInterrupt:
        print("\ninterrupted; run the same command again to go on", file=sys.stderr)
        return 130
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    print(f"{len(plans) - len(failed)} of {len(plans)} sweeps without a difference")
    return 1 if failed else 0


def _certify(plan: sweep.Plan, profile: profiles.Profile, pool: object, path: Path) -> bool:
    """Sweep one operator and dtype, tell the outcome, and store or withdraw its certificate."""
    total = sum(stop - start for start, stop in plan.tasks())
    with tqdm(total=total, desc=f"{plan.op} {plan.dtype}", unit="case", leave=False, disable=None) as bar:
        tally = sweep.sweep(plan, profile, pool, bar)
    if tally.ok and tally.elements:
        made = sweep.certificate(plan, tally, profile)
        if plan.device == DEVICE:
            certificates.store(made, path)
        print(f"ok   {plan.op} {made.text()}")
        return True
    if tally.ok:
        print(f"none {plan.op} {plan.dtype} {plan.mode}: nothing to compare; both sides raised in {tally.both_raised} cases")
        return True
    print(f"OFF  {plan.op} {plan.dtype} {plan.mode}: {tally.off} of {tally.elements} elements, max {tally.max_ulp} ulp")
    for problem in tally.problems:
        print("     " + problem.replace("\n", "\n     "))
    if plan.device == DEVICE:
        certificates.withdraw(plan.op, plan.dtype, path)
    return False
