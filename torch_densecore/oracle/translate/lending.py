"""Memory of the host that guest code uses in place for the time of a call: large arguments are not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import unicorn

from .. import memory as layout

_PAGE = 4096


class LentMemory:
    """What the running call may use. Translated code reaches any address; the rest is told here.

    blocks: the compiled helper's runtime blocks, which check the addresses that functions such as memcpy get.
    """

    def __init__(self, memory: layout.AddressSpace, emulator: Any, blocks: Sequence[Any]) -> None:
        self.memory, self.emulator, self.blocks = memory, emulator, blocks
        self._shift = memory.host_base - layout.LOW  # from guest to host addresses
        self._shown: list[tuple[int, int]] = []  # in the emulator: address, size
        self._shown_count = 0  # entries of what is lent that are there

    def lend(self, address: int, size: int) -> int | None:
        """Guest address of host memory; None if the table is full."""
        count = len(self.memory.lent)
        if 2 * count == len(self.blocks[0].lent):
            return None
        guest = (address - self._shift) % (1 << 64)
        for block in self.blocks:
            block.lent[2 * count : 2 * count + 2] = [guest, guest + size]
            block.lent_count = count + 1
        self.memory.lent.append((guest, guest + size))
        return guest

    def show(self) -> None:
        """Map what is lent into the emulator."""
        if self._shown_count == len(self.memory.lent):
            return
        self._hide()
        self._shown_count = len(self.memory.lent)
        pages = sorted((low & -_PAGE, (high + _PAGE - 1) & -_PAGE) for low, high in self.memory.lent)
        end = 0
        for low, high in pages:
            low = max(low, end)
            if low < high:
                self.emulator.mem_map_ptr(low, high - low, unicorn.UC_PROT_ALL, low + self._shift)
                self._shown.append((low, high - low))
                end = high

    def reclaim(self) -> None:
        """Nothing is lent any more."""
        if not self.memory.lent:
            return
        for block in self.blocks:
            block.lent_count = 0
        self.memory.lent.clear()
        self._hide()

    def _hide(self) -> None:
        for low, size in self._shown:
            self.emulator.mem_unmap(low, size)
        self._shown.clear()
        self._shown_count = 0
