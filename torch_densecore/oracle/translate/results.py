"""Memory of the host for the results of a call: large results are made in place and not copied out of the guest.

A call whose arguments are used in place is offered memory for the results that the latest call like it had. When the guest
allocates a block of exactly such a size it gets the offered one, and a result that lies there is the host's tensor itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from .. import host
from ..native import TAKEN
from .lending import LentMemory

_REMEMBERED = 1024  # calls
Geometry = tuple[int, tuple[int, ...], tuple[int, ...], int]  # dtype, sizes, strides, bytes


@dataclass(frozen=True)
class _Offered:
    tensor: Any
    geometry: Geometry
    address: int  # of the guest


class ResultMemory:
    """What the running call is offered, and what earlier calls have not given back.

    slots: the table in which the compiled helper's allocator looks.
    """

    def __init__(self, lent: LentMemory, slots: Any) -> None:
        self._lent, self._slots = lent, slots
        self._known: dict[Hashable, list[Geometry]] = {}
        self._offered: dict[int, _Offered] = {}  # by slot
        self._call: Hashable = None
        self._results: list[Geometry] = []
        self.claimed = 0  # results that were made in place

    def offer(self, call: Hashable) -> None:
        """Offer memory for the results that the latest call like this one had."""
        self._call = call
        free = [slot for slot in range(len(self._slots)) if slot not in self._offered]
        for slot, geometry in zip(free, self._known.get(call, ()), strict=False):
            code, sizes, strides, size = geometry
            tensor = host.empty(code, sizes, strides)
            address = self._lent.lend(tensor.data_ptr(), size)
            if address is not None:
                self._offered[slot] = _Offered(tensor, geometry, address)
                self._slots[slot].address, self._slots[slot].size = address, size

    def claim(self, geometry: Geometry, address: int) -> Any | None:
        """The host's tensor that the guest made a result in; None if it has to be copied."""
        self._results.append(geometry)
        for slot, offered in self._offered.items():
            if (offered.address, offered.geometry) == (address, geometry) and self._slots[slot].state == TAKEN:
                self._empty(slot)
                self.claimed += 1
                return offered.tensor
        return None

    def settle(self) -> None:
        """End a call. What the guest has taken and not freed is kept, and stays lent."""
        if self._call is not None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[self._call] = self._results
        self._call, self._results = None, []
        for slot, offered in list(self._offered.items()):
            if self._slots[slot].state == TAKEN:
                self._lent.lend(offered.tensor.data_ptr(), offered.geometry[3])
            else:
                self._empty(slot)

    def _empty(self, slot: int) -> None:
        del self._offered[slot]
        self._slots[slot].address = self._slots[slot].size = self._slots[slot].state = 0
