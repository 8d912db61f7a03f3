"""Which bytes are already known: digests by storage, forgotten when an operator writes to it.

A digest is reused only for a storage that a recorded operator created and that no one else can write to. Storages that
come from outside (numpy, a file, a tensor that existed before) and those that were handed out (`Tensor.numpy()`) are
hashed at every use. The weak reference keeps the storage's address from being reused while its entry exists.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .digest import block_digest, memory_order, tensor_digest, with_layout

PURGE_EVERY = 4096


class _Entry:
    __slots__ = ("ref", "trusted", "undefined", "blocks")

    def __init__(self, ref: StorageWeakRef, trusted: bool) -> None:
        self.ref = ref
        self.trusted = trusted
        self.undefined = False  # uninitialised memory: its bytes mean nothing
        self.blocks: dict[Any, str | None] = {}  # by place in the storage


class StorageBook:
    """Digest cache for the storages of a recorded run."""

    def __init__(self, *, order: str = "memory", reuse: bool = True) -> None:
        self._order = order
        self._reuse = reuse
        self._entries: dict[int, _Entry] = {}
        self._purge_at = PURGE_EVERY

    def digest(self, tensor: torch.Tensor, *, trusted: bool) -> str | None:
        """Digest of a tensor; `trusted`: if its storage is new, a recorded operator has just created it."""
        entry = self._entry(tensor, trusted)
        if entry is None:
            return tensor_digest(tensor, self._order)
        if entry.undefined:
            return None
        if not (entry.trusted and self._reuse):
            return tensor_digest(tensor, self._order)
        block, code = tensor, ""
        if self._order == "memory" and not tensor.is_contiguous():
            block, code = memory_order(tensor)
        key = _place(block)
        digest = entry.blocks.get(key)
        if digest is None:
            digest = entry.blocks[key] = block_digest(block)
        return with_layout(digest, code)

    def written(self, tensor: torch.Tensor) -> None:
        """An operator wrote to the tensor."""
        entry = self._entry(tensor, False)
        if entry is not None:
            entry.blocks.clear()
            entry.undefined = False

    def undefined(self, tensor: torch.Tensor) -> None:
        """An operator created the tensor without giving it a value."""
        entry = self._entry(tensor, True)
        if entry is not None:
            entry.blocks.clear()
            entry.undefined = True

    def exposed(self, tensor: torch.Tensor) -> None:
        """The tensor's memory was handed out: anything may write to it from now on."""
        entry = self._entry(tensor, False)
        if entry is not None:
            entry.trusted = False
            entry.undefined = False
            entry.blocks.clear()

    def _entry(self, tensor: torch.Tensor, trusted: bool) -> _Entry | None:
        try:
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return None
        entry = self._entries.get(storage._cdata)
        if entry is None:
            entry = self._entries[storage._cdata] = _Entry(StorageWeakRef(storage), trusted)
            if len(self._entries) >= self._purge_at:
                self._purge()
        return entry

    def _purge(self) -> None:
        dead = [key for key, entry in self._entries.items() if entry.ref.expired()]
        for key in dead:
            del self._entries[key]
        self._purge_at = max(PURGE_EVERY, 2 * len(self._entries))


def _place(block: torch.Tensor) -> tuple[Any, ...]:
    """Which elements of the storage the block has, in which order: neighbouring dimensions without a gap are one."""
    kind = (block.storage_offset(), block.dtype, block.is_neg(), block.is_conj())
    if block.is_contiguous():
        return (block.numel(), *kind)
    merged: list[list[int]] = []
    for size, stride in zip(block.shape, block.stride(), strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = [merged[-1][0] * size, stride]
        else:
            merged.append([size, stride])
    return (str(merged), *kind)
