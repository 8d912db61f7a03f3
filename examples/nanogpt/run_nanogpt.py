"""Runs an unmodified nanoGPT checkout on densecore: prepares a corpus, trains, resumes, samples.

    python examples/nanogpt/run_nanogpt.py path/to/nanoGPT [--steps 200] [--dropout 0.2] [--device densecore]

Nothing in the checkout is changed and nothing is downloaded. nanoGPT reads and writes below its working directory, so the script
works in a folder of its own (--work, default nanogpt_run), in which data/ holds generated text, and starts the checkout's train.py
and sample.py through `densecore run`. sample.py imports tiktoken even where a character-level model does not use it; where it is
not installed, an empty module stands in.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
from corpus import make

CONFIG = (
    "--compile=False --dtype=float32 --dataset=shakespeare_char --gradient_accumulation_steps=1 --batch_size=12 --block_size=64 "
    "--n_layer=4 --n_head=4 --n_embd=128 --learning_rate=1e-3 --beta2=0.99 --eval_iters=5 --log_interval=10"
).split()


def prepare(work: Path) -> None:
    """Writes train.bin, val.bin and meta.pkl as nanoGPT's data/shakespeare_char/prepare.py does, from generated text."""
    folder = work / "data" / "shakespeare_char"
    folder.mkdir(parents=True, exist_ok=True)
    text = make()
    characters = sorted(set(text))
    index = {c: i for i, c in enumerate(characters)}
    tokens = numpy.array([index[c] for c in text], dtype=numpy.uint16)
    cut = int(0.9 * len(tokens))
    tokens[:cut].tofile(folder / "train.bin")
    tokens[cut:].tofile(folder / "val.bin")
    meta = {"vocab_size": len(characters), "itos": dict(enumerate(characters)), "stoi": index}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def prepare_work(checkout: Path, work: Path) -> None:
    """Makes a working directory in which the checkout's scripts find what they open there. Raises SystemExit without a checkout."""
    if not (checkout / "train.py").is_file():
        raise SystemExit(f"{checkout} is not a nanoGPT checkout: it has no train.py")
    prepare(work)
    shutil.copy(checkout / "configurator.py", work)  # train.py and sample.py open it in the working directory
    if importlib.util.find_spec("tiktoken") is None:
        (work / "stand_ins").mkdir(exist_ok=True)
        (work / "stand_ins" / "tiktoken.py").write_text("")


def run_script(checkout: Path, work: Path, command: list[str], capture: bool = True) -> str:
    """Runs a command in the working directory, with the checkout's modules; returns what it printed, SystemExit if it fails."""
    print("+", " ".join(command[1:]), flush=True)
    paths = [str(checkout), *([str(work / "stand_ins")] if (work / "stand_ins").is_dir() else [])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run(command, cwd=work, env=env, stdout=subprocess.PIPE if capture else None, text=True)
    if done.returncode:
        raise SystemExit(done.returncode)
    return done.stdout or ""


def launch(checkout: Path, work: Path, script: str, *options: str, emulate: str = "random") -> None:
    """Starts a script of the checkout through `densecore run`; raises SystemExit if it fails."""
    launcher = [sys.executable, "-m", "torch_densecore.cli", "run", f"--emulate-cpu={emulate}", "--"]
    run_script(checkout, work, [*launcher, str(checkout / script), *options], capture=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a clone of nanoGPT")
    parser.add_argument("--work", type=Path, default=Path("nanogpt_run"))
    parser.add_argument("--device", default="densecore")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--sample", type=int, default=200, help="characters to sample")
    parser.add_argument("--emulate-cpu", default="random", help='see `densecore run --help`; "none" keeps the host\'s own draws')
    args = parser.parse_args()
    checkout, work = args.checkout.resolve(), args.work.resolve()
    prepare_work(checkout, work)
    common = [*CONFIG, f"--device={args.device}", f"--dropout={args.dropout}", "--out_dir=out", f"--lr_decay_iters={args.steps}"]
    common.append(f"--warmup_iters={args.steps // 10}")
    half = max(args.steps // 2, 1)
    start = [f"--max_iters={half}", f"--eval_interval={half}", "--always_save_checkpoint=True"]
    launch(checkout, work, "train.py", *common, *start, emulate=args.emulate_cpu)
    rest = [f"--max_iters={args.steps}", f"--eval_interval={args.steps}", "--init_from=resume", "--always_save_checkpoint=True"]
    launch(checkout, work, "train.py", *common, *rest, emulate=args.emulate_cpu)
    sample = [f"--device={args.device}", "--dtype=float32", "--compile=False", "--out_dir=out", "--num_samples=1"]
    launch(checkout, work, "sample.py", *sample, f"--max_new_tokens={args.sample}", "--start=A", emulate=args.emulate_cpu)


if __name__ == "__main__":
    main()
