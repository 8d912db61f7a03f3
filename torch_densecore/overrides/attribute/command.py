"""`densecore attribute`: flips one op, or group, at a time and shows what each changes in a run of an unmodified script."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torch_densecore.overrides import command as overrides_command
from torch_densecore.overrides import report
from torch_densecore.overrides.errors import OverrideError

if TYPE_CHECKING:
    from torch_densecore.overrides.attribute.study import Study

MODES = ("host", "oracle")
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "densecore attribute [options] -- script.py --device=densecore [arguments]"
    parser.add_argument("--to", choices=MODES, default="host", help="what each op is flipped to (default: host)")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="optimizer steps of each run (default: 10)")
    parser.add_argument("--ops", metavar="OPS", default="", help="only these: mm,*softmax* (default: all that run)")
    parser.add_argument("--groups", metavar="GROUPS", default="", help="flip whole groups: @blas,@reduction")
    parser.add_argument("-o", "--output", metavar="FOLDER", default="attribution", help="results and logs (default: attribution)")
    parser.add_argument("--restart", action="store_true", help="discard the study in the folder")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument("--emulate-cpu", metavar="OPS", default="random", help="as `densecore run` takes it (default: random)")
    parser.add_argument("--profile", metavar="NAME", help="reference profile of all runs")
    parser.add_argument("--uncertified", choices=("error", "warn", "oracle", "host"), help="as `densecore run` takes it")
    overrides_command.add_options(parser)
    parser.epilog = "Interrupted, it goes on where it stopped when the same command is given again."


def main(args: argparse.Namespace) -> int:
    from torch_densecore.overrides.attribute.study import Plan, Study, StudyError, check_words, plan_environment

    report.silence()
    if not args.program or args.steps < 1:
        print("densecore attribute: name a script after --, and at least one step", file=sys.stderr)
        return 2
    overrides_command.to_environment(args)
    words = [word.strip() for word in f"{args.ops},{args.groups}".split(",") if word.strip()]
    environment = plan_environment({
        "DENSECORE_PROFILE": args.profile, "DENSECORE_UNCERTIFIED": args.uncertified,
        "DENSECORE_EMULATE_CPU": "" if args.emulate_cpu == "none" else args.emulate_cpu,
    })  # fmt: skip
    study = Study(Plan(args.program, args.steps, args.to, words, environment), Path(args.output))
    code = 0
    try:
        check_words(words)
        study.open(args.restart)
        _run(study)
    except KeyboardInterrupt:
        print("densecore attribute: interrupted; give the same command again to go on", file=sys.stderr)
        code = INTERRUPTED
    except (StudyError, OverrideError) as error:
        print(f"densecore attribute: {error}", file=sys.stderr)
        return 2
    _write(study, args.json)
    return code


def _run(study: Study) -> None:
    from tqdm import tqdm

    with tqdm(unit="run", disable=None) as bar:

        def progress(name: str, done: int, total: int) -> None:
            bar.total = total or None
            bar.n = done
            bar.set_postfix_str(name)

        study.run(progress)


def _write(study: Study, as_json: bool) -> None:
    from torch_densecore.overrides.attribute import page, result, table

    found = result.rows(study)
    if not found:
        return
    data = json.dumps(result.as_json(study, found), indent=1)
    (study.folder / "attribution.json").write_text(data + "\n", encoding="utf-8")
    (study.folder / "attribution.html").write_text(page.render(study, found), encoding="utf-8")
    if as_json:
        print(data)
        return
    table.show(study, found)
    print(f"page: {os.path.join(study.folder, 'attribution.html')}")
