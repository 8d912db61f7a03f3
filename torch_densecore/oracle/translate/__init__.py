"""Runs the wheel's machine code at near-native speed: A64 functions are translated to LLVM IR on first use.

Needs llvmlite and an x86-64 Linux host; the page docs/translator.md explains the machine.
"""

from .cpu import Statistics, TranslatedCpu, install

__all__ = ["Statistics", "TranslatedCpu", "install"]
