"""The 12-bit estimate of 1 / sqrt(x) that x86 has as an instruction, and MKL's square root on it.

Intel and AMD define the estimate's error, not its bits, so it comes from the processor that explains: ten instructions of machine
code, called through ctypes. Where that is not possible (another architecture, no executable memory) there is no estimate.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable
from functools import cache

import numpy as np

from .arith import F32, Array

CODE = bytes.fromhex(
    "0f1007"  # loop: movups xmm0, [rdi]
    "0f52c0"  # rsqrtps xmm0, xmm0
    "0f1106"  # movups [rsi], xmm0
    "4883c710 4883c610"  # add rdi, 16; add rsi, 16
    "48ffca 75ea"  # dec rdx; jnz loop
    "c3"  # ret
)


@cache
def _routine() -> Callable[[int, int, int], None] | None:
    """(address of x, address of the estimates, groups of 4) -> None."""
    if platform.machine() not in ("x86_64", "AMD64") or sys.platform == "win32":
        return None
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except (OSError, ValueError):
        return None
    memory.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    function = prototype(address)
    function.memory = memory  # lives as long as the function
    return function


def rsqrt(x: Array) -> Array | None:
    """This processor's `rsqrtps`; None where there is none."""
    routine = _routine()
    if routine is None:
        return None
    padded = np.ones(-(-max(x.size, 1) // 4) * 4, F32)
    padded[: x.size] = x.reshape(-1)
    estimates = np.empty_like(padded)
    routine(padded.ctypes.data, estimates.ctypes.data, padded.size // 4)
    return estimates[: x.size].reshape(x.shape)


def sqrt_from_estimate(x: Array) -> Array | None:
    """MKL's square root without fused multiply-add (vmsSqrt on processors that are not Intel's): two Newton steps.

    Zeros, subnormal and special arguments are left to the exact square root, as MKL does.
    """
    estimate = rsqrt(x)
    if estimate is None:
        return None
    with np.errstate(all="ignore"):
        root, half = x * estimate, estimate * F32(0.5)
        error = F32(0.5) - root * half
        root, half = root * error + root, half * error + half
        root = (x - root * root) * half + root
        ordinary = (x >= np.finfo(F32).tiny) & np.isfinite(x)
        return np.where(ordinary, root, np.sqrt(x)).astype(F32)
