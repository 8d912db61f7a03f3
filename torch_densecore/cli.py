"""The `densecore` command. Each subcommand is a module with `add_arguments(parser)` and `main(args) -> int`."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

# command -> (module, one-line help); modules are imported only when their command runs, so `densecore --help` is fast
# and the recording tools work where the compiled extension or an optional extra is missing
COMMANDS: dict[str, tuple[str, str]] = {
    "coverage": ("torch_densecore.coverage", "Every op of the device: tier, dtypes, certificate."),
    "oracle": ("torch_densecore.oracle.commands", "Ask the reference wheel for its bits; survey this host against it."),
    "certify": ("torch_densecore.certify.commands", "Sweep operators against the reference wheel and store certificates."),
    "certificates": ("torch_densecore.certify.table", "What was swept against the reference wheel, from the certificates."),
    "selfcheck": ("torch_densecore.selfcheck", "Check on this machine that the device gives the reference's bits."),
    "run": ("torch_densecore.launcher", "Run an unmodified script with the reference's bits."),
    "overrides": ("torch_densecore.overrides.command", "What op-by-op overrides are in force, and where each came from."),
    "attribute": (
        "torch_densecore.overrides.attribute.command",
        "Flip one op at a time: how much of a difference does each explain?",
    ),
    "record": ("torch_densecore.trace.commands.record", "Record every operator of a program to a trace file."),
    "validate": ("torch_densecore.trace.commands.validate", "Check that a trace file is complete and undamaged."),
    "diff": ("torch_densecore.trace.commands.diff", "Compare two traces: where do two runs first differ?"),
    "replay": ("torch_densecore.trace.commands.replay", "Make a trace's stored calls again, each from its inputs."),
    "explain": ("torch_densecore.trace.commands.explain", "Say which arithmetic makes two traces differ."),
    "verify": ("torch_densecore.trace.commands.verify", "Run a program again and compare it with a stored trace."),
    "probe": ("torch_densecore.trace.commands.probe", "Find out how this machine computes and write it as JSON."),
}

# commands that take the words after `--` as a program (args.program), whatever they look like
TAKES_PROGRAM = ("attribute", "record", "verify", "explain")


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser; only `command`'s module is imported to add its arguments."""
    parser = argparse.ArgumentParser(prog="densecore", description="Apple Silicon's PyTorch bits, on any machine.")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, (module, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name == command:
            importlib.import_module(module).add_arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in argv if not word.startswith("-")), None)
    cut = argv.index("--") if command in TAKES_PROGRAM and "--" in argv else len(argv)
    if command not in (*TAKES_PROGRAM, "run") and (report := sys.modules.get("torch_densecore.overrides.report")):
        report.silence()  # no program runs, so no override of the environment can be hit
    args = build_parser(command).parse_args(argv[:cut])
    args.program = argv[cut + 1 :]
    return importlib.import_module(COMMANDS[args.command][0]).main(args)


if __name__ == "__main__":
    sys.exit(main())
