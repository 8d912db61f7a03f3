"""Unmodified nanoGPT on `cpu` with emulation, on `densecore`, and in the reference wheel: the same bits?

    python examples/nanogpt/bit_exact.py path/to/nanoGPT                       both devices against the certificate in the tree
    python examples/nanogpt/bit_exact.py path/to/nanoGPT --make-certificate    the run in the reference wheel, op by op (minutes)

Trains 26 steps from drawn weights, resumes at the checkpoint of step 25, trains on to step 50, and samples, with the checkout's own
train.py and sample.py and dropout on. Compared are digests of all weights and gradients before every step, of the optimizer's
state at the end, of the random stream, and what the scripts print. Exit code 0: no difference.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from run_nanogpt import prepare_work, run_script

CERTIFICATE = Path(__file__).parent.parent / "certificates" / "nanogpt.json"
WATCH = Path(__file__).parent / "watch.py"
HALF = 25
TRAIN = (
    "config/train_shakespeare_char.py --compile=False --dtype=float32 --gradient_accumulation_steps=1 --batch_size=4 "
    "--block_size=32 --n_layer=4 --n_head=4 --n_embd=64 --dropout=0.2 --eval_iters=2 --log_interval=1 --warmup_iters=5 "
    f"--lr_decay_iters=50 --always_save_checkpoint=True --eval_interval={HALF} --out_dir=out"
).split()
PARTS: dict[str, list[str]] = {
    "train": ["train.py", *TRAIN, f"--max_iters={HALF}"],
    "resume": ["train.py", *TRAIN, f"--max_iters={2 * HALF}", "--init_from=resume"],
    "sample": ["sample.py", *"--dtype=float32 --compile=False --out_dir=out --num_samples=1 --max_new_tokens=60 --start=A".split()],
}
SIDES = {"cpu": ["--emulate-cpu"], "densecore": []}
TIME = re.compile(r", time [\d.]+ms, mfu .*")
SETTINGS = ("Overriding", "Loading meta", "number of parameters")


def said(part: str, text: str) -> list[str]:
    """The losses that train.py printed, or the text that sample.py made; no times, no settings."""
    lines = text.splitlines()
    if part == "sample":
        return [line for line in lines if not line.startswith(SETTINGS)]
    return [TIME.sub("", line) for line in lines if line.startswith(("iter ", "step "))]


def run_part(part: str, device: str, launcher: list[str], checkout: Path, work: Path) -> dict[str, Any]:
    """One script, watched; returns its record with what it printed."""
    out = work / f"{part}.json"
    script, *options = PARTS[part]
    options = [str(checkout / o) if o.startswith("config/") else o for o in options]
    printed = run_script(checkout, work, [*launcher, str(out), str(checkout / script), *options, f"--device={device}"])
    return {**json.loads(out.read_text()), "printed": said(part, printed)}


def run(device: str, launcher: list[str], checkout: Path, work: Path) -> dict[str, Any]:
    """The three parts, in a working directory of their own."""
    prepare_work(checkout, work)
    return {part: run_part(part, device, launcher, checkout, work) for part in PARTS}


def compare(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> int:
    """Prints one line a part and returns the number of differences."""
    wrong = 0
    for part in PARTS:
        a, b = ours[part], theirs[part]
        pairs = list(zip(a["steps"], b["steps"], strict=True))
        off = {key: sum(x[key] != y[key] for x, y in pairs) for key in ("weights", "gradients")}
        end = sum(a.get("end", {}).get(key) != b.get("end", {}).get(key) for key in ("weights", "optimizer"))
        rest = int(a["random"] != b["random"]) + int(a["printed"] != b["printed"])
        first = f"initial weights {'equal' if pairs[0][0]['weights'] == pairs[0][1]['weights'] else 'DIFFER'}, " if pairs else ""
        print(
            f"{name:<24} {part:<7} {first}{len(pairs)} steps: weights_off={off['weights']} grads_off={off['gradients']} "
            f"end_off={end}; stream and printed lines off={rest}"
        )
        wrong += sum(off.values()) + end + rest
    return wrong


def launcher(side: str) -> list[str]:
    return [sys.executable, "-m", "torch_densecore.cli", "run", *SIDES[side], "--", str(WATCH)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a clone of nanoGPT")
    parser.add_argument("--work", type=Path, default=Path("nanogpt_bits"))
    parser.add_argument("--make-certificate", action="store_true")
    args = parser.parse_args(argv)
    checkout, work = args.checkout.resolve(), args.work.resolve()
    if args.make_certificate:
        made = run("cpu", [sys.executable, str(WATCH), "--oracle"], checkout, work / "wheel")
        CERTIFICATE.write_text(json.dumps(made, indent=0) + "\n")
        print(f"{CERTIFICATE}: {len(CERTIFICATE.read_text())} characters")
        return 0
    certificate = json.loads(CERTIFICATE.read_text())
    about = certificate["train"]["about"]
    print(f"reference {about['profile']}, {about['threads']} threads, wheel sha256 {about['wheel_sha256'][:16]}...")
    print(f"modelled there: {', '.join(about['modelled']) or 'nothing'}")
    results = {side: run(side, launcher(side), checkout, work / side) for side in SIDES}
    wrong = sum(compare(f"{side} / reference", results[side], certificate) for side in SIDES)
    wrong += compare("cpu / densecore", results["cpu"], results["densecore"])
    print("bit for bit the reference, on both devices" if wrong == 0 else f"{wrong} differences")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
