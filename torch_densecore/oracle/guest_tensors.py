"""Guest tensors: a pool of argument tensors that calls reuse, and direct reads of TensorImpl.

Making and dropping a guest tensor costs several guest calls, more than a small operator itself. So a tensor of given
dtype, sizes and strides is made once, kept alive by a reference of ours, and refilled for the next call. What an
operator did to it (a resize, another storage) is seen afterwards, and such a tensor leaves the pool.
"""

from __future__ import annotations

import ctypes
import struct
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from . import host
from .errors import GuestError, GuestException
from .host import HostTensor

if TYPE_CHECKING:
    from .machine import Machine

POOLED_BYTES = 1 << 20  # larger tensors are made anew for each call
LENT_BYTES = 1 << 15  # from this size on an argument's memory is used in place, where the CPU can do that
POOL_LIMIT, POOL_KEYS = 32 << 20, 1024
_SYMBOLS = {
    "undefined": "__ZN3c1019UndefinedTensorImpl10_singletonE", "reinterpret": "_aoti_torch__reinterpret_tensor",
    "empty_strided": "_aoti_torch_empty_strided", "dim": "_aoti_torch_get_dim", "sizes": "_aoti_torch_get_sizes",
    "strides": "_aoti_torch_get_strides", "dtype": "_aoti_torch_get_dtype", "data_ptr": "_aoti_torch_get_data_ptr",
    "layout": "_aoti_torch_get_layout", "blob": "_aoti_torch_create_tensor_from_blob",
    "promote": "__ZN2at6native24update_result_type_stateERKNS_6TensorERKNS0_15ResultTypeStateE",
}  # fmt: skip
_OPTIONAL = ("layout", "blob")
_SCAN = 0x100  # bytes of a TensorImpl that the layout search looks at
_INLINE = 5  # c10::SizesAndStrides keeps this many sizes and strides inside the object
Key = tuple[int, tuple[int, ...], tuple[int, ...]]  # dtype, sizes, strides
OWNED, WRAPPED, LENT = range(3)  # what a pooled tensor's data is: its own, a wrapped number, memory of the host


@dataclass(frozen=True)
class Layout:
    """Byte offsets of fields in c10::TensorImpl and c10::StorageImpl, found by looking at known tensors."""

    vtable: int
    storage: int
    data: int
    rank: int
    offset: int
    dtype: int


@dataclass
class Pooled:
    """A guest tensor of ours; `data` is its storage's address, `key` None when it is not to be reused.

    state: the bytes of its geometry when it was made.
    """

    impl: int
    data: int
    nbytes: int
    key: tuple[Key, int] | None
    state: bytes = b""


def describe(machine: Machine) -> dict[str, Any]:
    """Addresses and the object layout; computed once per snapshot."""
    info: dict[str, Any] = {
        name: machine.symbol(symbol) for name, symbol in _SYMBOLS.items() if name not in _OPTIONAL or machine.defines(symbol)
    }
    tensors = GuestTensors(machine, {**info, "fields": None, "wrapped_number": None})
    info["fields"] = tensors.find_layout()
    info["wrapped_number"] = tensors.find_wrapped_number()
    return info


class GuestTensors:
    """Makes, pools, reads and drops guest tensors."""

    def __init__(self, machine: Machine, info: dict[str, Any]) -> None:
        self.machine, self.memory, self.heap, self.info = machine, machine.memory, machine.heap, info
        self.layout = Layout(*info["fields"]) if info["fields"] else None
        self.slot = self.heap.alloc(64)
        self._pool: OrderedDict[tuple[Key, int], list[Pooled]] = OrderedDict()
        self._pool_bytes = 0
        self._taken: list[Pooled] = []
        self._bases: dict[tuple[int, int], Pooled] = {}
        self.dropped: list[int] = []  # TensorImpls whose last reference of ours waits to be released
        self.lending = False  # whether the running call may use its arguments' memory in place
        self._lent_keys: list[Key] = []  # of the arguments that it uses so

    # ---- making -----------------------------------------------------------------------------------

    def _checked(self, name: str, *args: int) -> None:
        if self.machine.call(self.info[name], *args) & 0xFFFFFFFF:
            raise GuestError(f"the guest's {name} failed")

    def _integers(self, values: Sequence[int]) -> int:
        return self.heap.new(struct.pack(f"<{max(1, len(values))}q", *(values or (0,))))

    def _made(self, name: str, before: tuple[int, ...], sizes: Sequence[int], strides: Sequence[int], *after: int) -> int:
        """Call a function that makes a tensor, and take the TensorImpl out of the handle it returns."""
        a, b = self._integers(sizes), self._integers(strides)
        self._checked(name, *before, len(sizes), a, b, *after, self.slot)
        self.heap.free(a)
        self.heap.free(b)
        handle = self.memory.r64(self.slot)
        impl = self.memory.r64(handle)
        self.heap.free(handle)
        return impl

    def make(self, code: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
        """A new TensorImpl with a storage of its own (resizable, as an operator's result is)."""
        return self._made("empty_strided", (), sizes, strides, code, 0, 0xFFFFFFFF)

    def _view(self, base: Pooled, tensor: HostTensor) -> int:
        handle = self.heap.new(struct.pack("<Q", base.impl))
        impl = self._made("reinterpret", (handle,), tensor.sizes, tensor.strides, tensor.offset)
        self.heap.free(handle)
        return impl

    # ---- arguments --------------------------------------------------------------------------------

    def argument(self, tensor: HostTensor, shared: bool, wrapped: bool = False) -> tuple[int, Pooled]:
        """A TensorImpl for an argument, with one reference for the operator to consume, and what holds its data.

        shared: another argument of the call has the same storage, or the tensor covers only a part of it; the guest
        tensor is then a view of a flat one, and arguments with the same storage share theirs.
        """
        if not shared:
            pooled = self._filled((tensor.code, tensor.sizes, tensor.strides), tensor, tensor.nbytes, wrapped)
            self.retain(pooled.impl)
            return pooled.impl, pooled
        base = self._bases.get((tensor.storage, tensor.code))
        if base is None:
            count = tensor.nbytes // tensor.itemsize
            base = self._filled((tensor.code, (count,), (1,)), tensor, count * tensor.itemsize)
            self._bases[tensor.storage, tensor.code] = base
        return self._view(base, tensor), base

    def _filled(self, key: Key, tensor: HostTensor, nbytes: int, wrapped: bool = False) -> Pooled:
        """A tensor from the pool that has the argument's data, by copy or in place."""
        if nbytes >= LENT_BYTES and self.lending and self.machine.translated is not None and "blob" in self.info:
            address = self.machine.translated.lend(tensor.storage, nbytes)
            if address is not None:
                return self._lent(key, address)
        pooled = self._take(key, nbytes, WRAPPED if wrapped else OWNED)
        if nbytes:
            ctypes.memmove(self.memory.host(pooled.data), tensor.storage, min(nbytes, tensor.nbytes))
        return pooled

    def _lent(self, key: Key, address: int) -> Pooled:
        """A tensor over memory of the host: a pooled one is pointed at it, a new one made."""
        spare = self._pool.get((key, LENT))
        if spare:
            pooled, at = spare.pop(), self.layout
            assert at is not None
            self.memory.w64(self.memory.r64(pooled.impl + at.storage) + at.data, address)
            pooled.data, pooled.state = address, pooled.state[:-8] + struct.pack("<Q", address)
        else:
            code, sizes, strides = key
            impl = self._made("blob", (address,), sizes, strides, 0, code, 0, -1 & 0xFFFFFFFF)
            reusable = len(sizes) <= _INLINE and self.layout is not None
            pooled = Pooled(impl, address, 0, (key, LENT) if reusable else None, self._state(impl) if reusable else b"")
        self._lent_keys.append(key)
        self._taken.append(pooled)
        return pooled

    def _take(self, key: Key, nbytes: int, kind: int) -> Pooled:
        spare = self._pool.get((key, kind))
        if spare:
            pooled = spare.pop()
            self._pool.move_to_end((key, kind))
            self._pool_bytes -= pooled.nbytes
        else:
            pooled = self._new(key, nbytes, kind)
        self._taken.append(pooled)
        return pooled

    def _new(self, key: Key, nbytes: int, kind: int) -> Pooled:
        impl = self.make(*key)
        if kind == WRAPPED:
            at, bit = self.info["wrapped_number"]
            self.memory.w8(impl + at, self.memory.r8(impl + at) | 1 << bit)
        reusable = nbytes <= POOLED_BYTES and len(key[1]) <= _INLINE and self.layout is not None
        state = self._state(impl) if reusable else b""
        return Pooled(impl, self.data_pointer(impl), nbytes, (key, kind) if reusable else None, state)

    def _state(self, impl: int) -> bytes:
        """The bytes that tell whether an operator changed a tensor: storage, sizes, strides, dtype, the data's address."""
        at, memory = self.layout, self.memory
        fields = memory.read(impl + at.storage, at.dtype + 2 - at.storage)
        return fields + memory.read(memory.r64(impl + at.storage) + at.data, 8)

    def offer_results(self, operator: int) -> None:
        """Offer memory for the large results of an operator whose arguments were taken in place."""
        if self._lent_keys:
            self.machine.translated.results.offer((operator, *self._lent_keys))

    def finish(self) -> None:
        """End a call: return the tensors that are as they were to the pool and drop the others."""
        for pooled in self._taken:
            if pooled.key is not None and self._state(pooled.impl) == pooled.state:
                self._pool.setdefault(pooled.key, []).append(pooled)
                self._pool_bytes += pooled.nbytes
            else:
                self.dropped.append(pooled.impl)
        self._taken.clear()
        self._bases.clear()
        self._lent_keys.clear()
        while self._pool_bytes > POOL_LIMIT or len(self._pool) > POOL_KEYS:
            _, oldest = self._pool.popitem(last=False)
            self._pool_bytes -= sum(p.nbytes for p in oldest)
            self.dropped += [pooled.impl for pooled in oldest]
        if self.machine.translated is not None:
            self.machine.translated.reclaim()

    def retain(self, impl: int) -> None:
        """Count one more reference (the low word of the count, in both layouts that releases have)."""
        self.memory.w32(impl + 8, self.memory.r32(impl + 8) + 1)

    # ---- reading ----------------------------------------------------------------------------------

    def find_layout(self) -> list[int] | None:
        """Offsets of Layout's fields, from a tensor whose geometry is unlike anything else in the object."""
        memory = self.memory
        base = self._owned_base(7, (97, 89), (89, 1))
        impl = self._view(base, HostTensor(None, 7, (11, 13, 5), (577, 31, 3), 1231, 0, 0))
        words = struct.unpack(f"<{_SCAN // 8}Q", memory.read(impl, _SCAN))
        geometry = (3, 11, 13, 5)
        try:
            rank = next(8 * i for i in range(1, len(words) - 10) if words[i : i + 4] == geometry)
            if words[rank // 8 + 1 + _INLINE :][:3] != (577, 31, 3):
                return None
            offset = 8 * words.index(1231)
            storage = next(8 * i for i, word in enumerate(words) if i and self._storage_field(word, base.data) is not None)
            data = self._storage_field(words[storage // 8], base.data)
            other = self.make(3, (1,), (1,))
            dtype = next(
                at for at in range(16, _SCAN, 2) if memory.r16(impl + at) == 7 and memory.r16(other + at) == 3
            )  # fmt: skip
        except (StopIteration, ValueError):
            return None
        self.dropped += [impl, base.impl, other]
        return [words[0], storage, data, rank, offset, dtype]

    def find_wrapped_number(self) -> tuple[int, int]:
        """Byte and bit of a TensorImpl that mark a wrapped number, found by their effect on type promotion.

        The state of a promotion is the dtype so far of dimensioned tensors, wrapped numbers and scalars; to int32 everywhere
        an int64 tensor without dimensions adds itself as a scalar, and as a wrapped number once the right bit is set.
        """
        impl = self.make(4, (), ())
        handle, state = self.heap.new(struct.pack("<Q", impl)), self.heap.new(bytes([3, 3, 3]))
        try:
            for at, bit in product(range(16, _SCAN), range(8)):
                byte = self.memory.r8(impl + at)
                self.memory.w8(impl + at, byte ^ (1 << bit))
                try:
                    promoted = self.machine.call(self.info["promote"], handle, state) & 0xFFFFFF
                except (GuestError, GuestException):  # a changed field may well be a pointer
                    promoted = 0
                self.memory.w8(impl + at, byte)
                if promoted == int.from_bytes([3, 4, 3], "little"):
                    return at, bit
        finally:
            self.dropped.append(impl)
            self.heap.free(handle)
            self.heap.free(state)
        raise GuestError("the mark of wrapped numbers was not found")

    def _owned_base(self, code: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Pooled:
        impl = self.make(code, sizes, strides)
        return Pooled(impl, self.data_pointer(impl), 0, None)

    def _storage_field(self, pointer: int, data: int) -> int | None:
        """Offset of the data pointer when `pointer` is a StorageImpl that owns `data`."""
        try:
            words = struct.unpack("<16Q", self.memory.read(pointer, 128))
        except Exception:  # not a pointer
            return None
        return 8 * words.index(data) if data in words else None

    def data_pointer(self, impl: int) -> int:
        """Address of a tensor's first element."""
        return self.geometry(impl)[3]

    def geometry(self, impl: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
        """ScalarType, sizes, strides and address of the first element of a guest tensor."""
        at, memory = self.layout, self.memory
        if at is None or memory.r64(impl) != at.vtable:
            return self._ask_geometry(impl)
        rank = memory.r64(impl + at.rank)
        if rank <= _INLINE:
            words = memory.int64s(impl + at.rank + 8, rank + _INLINE)
            sizes, strides = words[:rank], words[_INLINE:]
        else:
            words = memory.int64s(memory.r64(impl + at.rank + 8), 2 * rank)
            sizes, strides = words[:rank], words[rank:]
        code = memory.r16(impl + at.dtype)
        data = memory.r64(memory.r64(impl + at.storage) + at.data)
        return code, sizes, strides, data + memory.r64(impl + at.offset) * host.itemsize(code)

    def _ask_geometry(self, impl: int) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
        """The same through torch's C interface, for other classes of TensorImpl."""
        call, memory, info = self.machine.call, self.memory, self.info
        handle, out = self.slot + 32, self.slot
        memory.w64(handle, impl)
        memory.w64(out, 0)
        if "layout" in info:  # absent before torch 2.7
            call(info["layout"], handle, out)
        if memory.r32(out):
            raise NotImplementedError("the result is not a strided tensor")
        call(info["dim"], handle, out)
        dim = memory.r64(out)
        call(info["sizes"], handle, out)
        sizes = memory.int64s(memory.r64(out), dim)
        call(info["strides"], handle, out)
        strides = memory.int64s(memory.r64(out), dim)
        call(info["dtype"], handle, out)
        code = memory.r32(out)
        call(info["data_ptr"], handle, out)
        return code, sizes, strides, memory.r64(out)

    def read(self, impl: int, as_torch: bool) -> Any:
        """Host copy of a guest tensor; None for an undefined one."""
        if impl == self.info["undefined"]:
            return None
        code, sizes, strides, data = self.geometry(impl)
        size = host.extent(sizes, strides) * host.itemsize(code)
        if size >= LENT_BYTES and self._lent_keys and as_torch:
            made = self.machine.translated.results.claim((code, tuple(sizes), tuple(strides), size), data)
            if made is not None:
                return made
        return host.make(code, sizes, strides, self.memory.host(data) if size else 0, size, as_torch)
