"""Code that nobody here wrote, on `cpu` with emulation and on `densecore`: the same bits, and the reference wheel's?

    python examples/third_party/run.py                     models of transformers, llms-from-scratch, torch.nn; both devices
    python examples/third_party/run.py --modules           also every module of torch.nn, on the inputs of torch's own tests
    python examples/third_party/run.py --oracle            also each kind of call in the reference wheel (torch_densecore[oracle])

Every program runs in strict mode: an op without kernel or certificate blocks it and is named. A package that is not installed is
said to be missing (`pip install transformers`, `pip install --no-deps llms-from-scratch`). Exit code 0: nothing differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import torch
from programs import Program, models, modules
from proof import Proof, prove
from tqdm import tqdm


def row(proof: Proof) -> str:
    """A line of the table."""
    if proof.blocked:
        return f"| {proof.name} | blocked by {proof.blocked} | | |"
    kinds = Counter(proof.ops.values())
    served = ", ".join(f"{kinds[kind]} {kind}" for kind in ("kernel", "exact", "composed") if kinds[kind])
    asked = f"{proof.wheel_off} of {proof.wheel_elements:,} ({proof.asked} calls)" if proof.asked else ""
    return f"| {proof.name} | {proof.off} of {proof.elements:,} | {served} | {asked} |"


def summary(proofs: list[Proof]) -> list[str]:
    """What the modules of torch.nn add up to."""
    ran = [proof for proof in proofs if not proof.blocked]
    blocked = Counter(proof.blocked for proof in proofs if proof.blocked)
    total = Proof(f"torch.nn: {len(ran)} of {len(proofs)} modules")
    for proof in ran:
        total.off += proof.off
        total.elements += proof.elements
        total.ops.update(proof.ops)
        total.asked += proof.asked
        total.wheel_elements += proof.wheel_elements
        total.wheel_off += proof.wheel_off
    names = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in blocked.most_common())
    return [row(total), "", f"Blocked: {names or 'none'}."]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", action="store_true", help="ask the reference wheel for every kind of call")
    parser.add_argument("--modules", action="store_true", help="every module of torch.nn too")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose name contains this")
    parser.add_argument("--steps", type=int, default=3, help="training steps of a model")
    parser.add_argument("--limit", type=int, default=4, help="kinds of calls an op that the wheel is asked for")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)

    def chosen(programs: list[Program]) -> list[Program]:
        return [program for program in programs if args.only.lower() in program.name.lower()]

    def run(programs: list[Program]) -> list[Proof]:
        return [prove(program, args.oracle, args.limit) for program in tqdm(programs, disable=None, leave=False)]

    wanted = chosen(models(args.steps))
    missing = [program for program in wanted if not program.installed]
    proofs = run([program for program in wanted if program.installed])
    parts = run(chosen(list(modules()))) if args.modules else []
    print("| program | elements off, cpu / densecore | ops | elements off, cpu / reference wheel |\n|---|---|---|---|")
    print("\n".join([row(proof) for proof in proofs] + (summary(parts) if parts else [])))
    for program in missing:
        print(f"{program.name}: package {program.package} is not installed")
    everything = [*proofs, *parts]
    modelled = sorted(set().union(*(proof.modelled for proof in everything)))
    certified = set().union(*(proof.certified for proof in everything))
    used = set().union(*(proof.ops for proof in everything))
    lacking = sorted(name for name in used - certified if not name.endswith("_like"))
    print(f"\n{len(used)} ops, {len(certified)} with a certificate of their own; without: {', '.join(lacking) or 'none'}")
    if args.oracle:
        print(f"modelled in the wheel: {', '.join(modelled) or 'nothing'}")
    for proof in everything:
        for text in [*proof.findings, *proof.unasked.values()]:
            print(f"{proof.name}: {text}")
    return int(not all(proof.ok for proof in everything))


if __name__ == "__main__":
    sys.exit(main())
