"""What decides a run's bits besides its inputs: versions, CPU, libraries, settings, seeds, the program's commit."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

# environment variables that can change a result
VARIABLES = re.compile(
    r"^(ATEN_|OMP_|MKL_|OPENBLAS_|VECLIB_|BLIS_|GOMP_|KMP_|TORCH_|PYTORCH_|CUDA_|CUBLAS_|CUDNN_|NVIDIA_TF32|"
    r"DNNL_|ONEDNN_|DENSECORE_|GLIBC_TUNABLES|PYTHONHASHSEED|LD_PRELOAD|DYLD_INSERT)"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|KEY", re.IGNORECASE)
PACKAGES = (
    "torch", "torch_densecore", "numpy", "transformers", "safetensors", "accelerate", "lightning", "torchvision",
    "torchaudio", "triton", "mkl", "intel-openmp", "xxhash", "tiktoken", "datasets",
)  # fmt: skip


def collect(script: str | None = None, command: list[str] | None = None) -> dict[str, Any]:
    """The environment as JSON data. `script`: the program's file, for its git commit; `command`: its words."""
    return {
        "torch": torch_build(),
        "system": {"os": platform.platform(), "machine": platform.machine(), "python": platform.python_version()},
        "cpu": {"model": cpu_model(), "capability": cpu_capability(), "cores": os.cpu_count()},
        "threads": {"intra_op": torch.get_num_threads(), "inter_op": torch.get_num_interop_threads()},
        "settings": settings(),
        "variables": {k: v for k, v in sorted(os.environ.items()) if VARIABLES.match(k) and not SECRET.search(k)},
        "seeds": {"torch": torch.initial_seed()},
        "packages": packages(),
        "densecore": densecore(),
        "program": {"command": command or [], "script": Path(script).name if script else "", **_git(script)},
    }


def torch_build() -> dict[str, Any]:
    """Release, commit and libraries of torch."""
    config = torch.__config__.show()
    return {
        "version": torch.__version__,
        "git": torch.version.git_version,
        "blas": _found(r"BLAS_INFO=(\w+)", config) or ("mkl" if torch.backends.mkl.is_available() else "unknown"),
        "mkl": _found(r"(?:Intel\(R\) )?oneAPI Math Kernel Library Version ([\w.\- ]+)", config),
        "mkldnn": _found(r"MKL-DNN v([\w.]+)", config),
        "compiler": _found(r"- (GCC [\w.]+|clang [\w.]+|MSVC \w+)", config),
        "config": config,
    }


def cpu_capability() -> str:
    """The instruction set that ATen dispatches to (DEFAULT, AVX2, AVX512, NEON, ...)."""
    name = torch.backends.cpu.get_cpu_capability()
    return "DEFAULT" if name == "NO AVX" else name  # as torch 2.4 calls it


def cpu_model() -> str:
    """The processor's marketing name."""
    if sys.platform == "darwin":
        return _run(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.processor()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return _found(r"model name\s*:\s*(.+)", text) or platform.processor() or platform.machine()


def settings() -> dict[str, Any]:
    """torch's switches that change arithmetic or the choice of kernels."""
    return {
        "default_dtype": str(torch.get_default_dtype()),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "mkldnn": torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled(),
        "flash_sdp": torch.backends.cuda.flash_sdp_enabled(),
        "math_sdp": torch.backends.cuda.math_sdp_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def packages() -> dict[str, str]:
    """Versions of the packages that take part in a computation."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def densecore() -> dict[str, Any]:
    """Profile, overrides and CPU emulation of the densecore device when it is loaded; {} with stock torch."""
    profile = sys.modules.get("torch_densecore.profile")
    if profile is None or not getattr(sys.modules.get("torch_densecore"), "_C", None):
        return {}
    overrides = sys.modules.get("torch_densecore.overrides")
    active = getattr(overrides, "active", None)
    emulate = sys.modules["torch_densecore.emulate"]
    return {
        "profile": profile.current().describe(),
        "overrides": active() if callable(active) else [],
        "emulate_cpu": emulate.summary(),
    }


def watch_overrides(tell: Callable[[list[str]], None]) -> Callable[[], None]:
    """Calls `tell` with what is in force whenever the program enters an override; returns what ends that."""
    report = sys.modules.get("torch_densecore.overrides.report")
    if report is None:
        return lambda: None
    report.listeners.append(tell)
    return lambda: report.listeners.remove(tell)


def _git(script: str | None) -> dict[str, Any]:
    folder = Path(script).resolve().parent if script else Path.cwd()
    commit = _run(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if not commit:
        return {}
    changed = _run(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return {"git_commit": commit, "git_dirty": bool(changed)}


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1).strip() if match else ""


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
