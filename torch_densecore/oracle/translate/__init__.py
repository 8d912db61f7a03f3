"""Runs the wheel's machine code at near-native speed: A64 functions are translated to LLVM IR on first use."""

from .cpu import Statistics, TranslatedCpu, cache_name

__all__ = ["Statistics", "TranslatedCpu", "cache_name"]
