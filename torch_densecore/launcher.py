"""`densecore run`: runs an unmodified script as python would, with the device set up for it.

The script sees its own `sys.argv` and `__main__`. CPU draws (initial weights, batches) are taken over by default, so a
`--device=densecore` run has the reference's bits from its first number on.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from torch_densecore.overrides import command
from torch_densecore.overrides.errors import OverrideError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "densecore run [options] -- script.py [arguments]   (or: -- -m module [arguments])"
    parser.add_argument(
        "--emulate-cpu",
        metavar="OPS",
        nargs="?",
        const="all",
        default="random",
        help='ops that our kernels serve on device "cpu" too: random (default), all, none, or a list such as normal_,mm',
    )
    parser.add_argument("--profile", metavar="NAME", help="reference profile: a name or a JSON file (DENSECORE_PROFILE)")
    parser.add_argument(
        "--uncertified",
        choices=("error", "warn", "oracle", "host"),
        help="what an op without kernel or certificate does (DENSECORE_UNCERTIFIED)",
    )
    command.add_options(parser)
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="-- script.py ...", help="the script and its arguments")


def main(args: argparse.Namespace) -> int:
    program = args.script[1:] if args.script[:1] == ["--"] else args.script
    if not program or program == ["-m"]:
        print("densecore run: name a script: densecore run -- script.py [arguments]", file=sys.stderr)
        return 2
    if args.profile:
        os.environ["DENSECORE_PROFILE"] = args.profile
    if args.uncertified:
        os.environ["DENSECORE_UNCERTIFIED"] = args.uncertified
    # by the environment, so that worker processes that the script spawns are set up alike
    if args.emulate_cpu != "none":
        os.environ["DENSECORE_EMULATE_CPU"] = args.emulate_cpu
    command.to_environment(args)
    try:
        set_up()
    except OverrideError as error:
        print(f"densecore run: {error}", file=sys.stderr)
        return 2
    return run(program)


def set_up() -> None:
    """Applies the environment to this process; the package may have been imported before it was changed."""
    import torch_densecore  # noqa: F401
    from torch_densecore import emulate, overrides, profile, strictness

    if os.environ.get("DENSECORE_PROFILE"):
        profile.set_current(os.environ["DENSECORE_PROFILE"])
    strictness.apply()
    emulate.apply()
    overrides.apply()


def run(command: list[str]) -> int:
    """Runs `script.py arguments` or `-m module arguments` in this process as `__main__`; returns the exit code."""
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        return 0
    script = command[0]
    if not os.path.exists(script):
        print(f"densecore run: can't open file {script!r}: no such file", file=sys.stderr)
        return 2
    sys.argv = list(command)
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    runpy.run_path(script, run_name="__main__")
    return 0
