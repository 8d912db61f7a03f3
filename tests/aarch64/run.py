"""The whole package on aarch64 Linux, without such a machine: cross-compiled, with the aarch64 torch wheel, run by qemu-user.

    python tests/aarch64/run.py --work DIR                          the demo's first steps, against the reference's certificate
    python tests/aarch64/run.py --work DIR -- -m torch_densecore.cli selfcheck       any other arguments for Python

Takes Debian's aarch64 Python and libraries (of this host's release; its Python must be 3.11), needs g++-aarch64-linux-gnu,
qemu-user, apt, pip and about 4 GB in DIR; some 15 minutes the first time, then what the program takes, 20 to 50 times as long as
on the host. The wheel that PyPI has for aarch64 is built for CUDA: its CUDA libraries are replaced by stubs, which is enough as
long as nothing calls them, and torch.distributed is left out. What qemu computes is Arm's arithmetic in software; speed, threads
and the memory model of a real Arm machine are not tested here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from stubs import make_stubs

ROOT = Path(__file__).resolve().parents[2]
TORCH = "2.13.0"
DEBS = (
    "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libstdc++6 libgcc-s1 zlib1g libexpat1 libffi8 libssl3 "
    "libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libgomp1 libatomic1"
).split()
PURE_AND_BINARY = (
    "numpy xxhash safetensors rich tqdm sympy mpmath typing_extensions filelock networkx jinja2 markupsafe fsspec packaging "
    "markdown-it-py mdurl pygments"
).split()
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
PROCESSORS = 2
CPU = """\
processor\t: {}
Features\t: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""
DEMO = [str(ROOT / "examples" / "demo_bit_exact.py"), "--steps", "3", "--no-host"]


def call(*command: str, cwd: Path | None = None, **environment: str) -> None:
    """Runs a command; the script ends with its exit code if it fails."""
    print("+", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment})
    if done.returncode != 0:
        raise SystemExit(done.returncode if done.returncode > 0 else 1)


def pip(*arguments: str) -> None:
    """pip for aarch64 wheels."""
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    options = ["--python-version", "3.11", "--only-binary=:all:", "--no-deps", "--quiet"]
    call(sys.executable, "-m", "pip", *arguments, *platforms, *options)


def system(folder: Path) -> None:
    """Debian's aarch64 Python and C libraries below `folder`, and the files by which programs ask for the processor."""
    if (folder / "proc").exists():
        return
    packages = folder.with_name("debs")
    packages.mkdir(exist_ok=True)
    call("dpkg", "--add-architecture", "arm64")
    call("apt-get", "-q", "update")
    call("apt-get", "-q", "download", *(f"{name}:arm64" for name in DEBS), cwd=packages)
    for package in sorted(packages.glob("*.deb")):
        call("dpkg-deb", "-x", str(package), str(folder))
    cpus = folder / "sys" / "devices" / "system" / "cpu"
    cpus.mkdir(parents=True)
    for name in ("possible", "present", "online"):
        (cpus / name).write_text(f"0-{PROCESSORS - 1}\n")
    (folder / "proc").mkdir()  # qemu looks here first; the host's own file describes another architecture
    (folder / "proc" / "cpuinfo").write_text("".join(CPU.format(i) for i in range(PROCESSORS)))


def packages(folder: Path) -> None:
    """torch and what it and torch_densecore import, for aarch64."""
    if (folder / "torch").exists():
        return
    wheels = folder.with_name("wheels")
    pip("download", f"torch=={TORCH}", "-d", str(wheels))
    pip("install", "--target", str(folder), *PURE_AND_BINARY)
    with zipfile.ZipFile(next(wheels.glob("torch-*.whl"))) as wheel:
        wheel.extractall(folder, [name for name in wheel.namelist() if not name.startswith("torch/test/")])
    (folder / "torch" / "bin" / "torch_shm_manager").chmod(0o755)


def extension(work: Path, site: Path) -> None:
    """torch_densecore and its extension, by the cross compiler against the aarch64 torch."""
    torch = site / "torch"
    compiler = f"aarch64-linux-gnu-g++ -isystem {torch}/include -isystem {torch}/include/torch/csrc/api/include -L{torch}/lib"
    call(
        sys.executable, "setup.py", "-q", "build", "--build-base", str(work / "build"), "--build-lib", str(site), cwd=ROOT,
        CXX=compiler, _PYTHON_HOST_PLATFORM="linux-aarch64",
    )  # fmt: skip
    for built in (site / "torch_densecore").glob("_C.*x86_64*.so"):
        built.rename(built.with_name("_C.cpython-311-aarch64-linux-gnu.so"))


def run(work: Path, site: Path, arguments: list[str]) -> int:
    """Python in qemu with these arguments, in `work`, where no torch_densecore of this host is found."""
    paths = {
        "LD_LIBRARY_PATH": f"{work}/stubs:{site}/torch/lib",
        "PYTHONPATH": f"{Path(__file__).resolve().parent / 'boot'}:{site}",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        "OMP_NUM_THREADS": "2",
    }
    settings = [word for name, value in paths.items() for word in ("-E", f"{name}={value}")]
    command = ["qemu-aarch64", "-L", str(work / "root"), *settings, str(work / "root" / "usr" / "bin" / "python3.11"), *arguments]
    return subprocess.run(command, cwd=work).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for downloads and builds, kept for the next time")
    parser.add_argument("arguments", nargs="*", default=DEMO, help="for Python (default: the demo's first steps)")
    args = parser.parse_args()
    missing = [tool for tool in ("qemu-aarch64", "aarch64-linux-gnu-g++", "apt-get", "dpkg-deb") if shutil.which(tool) is None]
    if missing or sys.version_info[:2] != (3, 11):
        raise SystemExit(f"aarch64: cannot run here: needs Python 3.11 and {', '.join(missing) or 'nothing else'}")
    work = args.work.resolve()
    site = work / "site"
    site.mkdir(parents=True, exist_ok=True)
    system(work / "root")
    packages(site)
    make_stubs(site / "torch" / "lib", work / "root", work / "stubs")
    extension(work, site)
    return run(work, site, args.arguments)


if __name__ == "__main__":
    sys.exit(main())
