"""The digest of a tensor: xxh3-128 of its bytes, so that every bit, every sign, -0.0 and the order of elements count.

Only NaN is made canonical (positive, quiet, no payload): the sign and payload of a NaN differ between instruction sets
for the same operation. Shape and dtype are no part of the digest; they stand in the event's site.

A contiguous tensor's bytes are hashed as they lie. Any other strided tensor is hashed in the order in which it lies in
memory, without copying it into logical order, and the order of its dimensions is hashed on top ("memory order"); so a
transpose costs nothing when its base is known. Two such digests can be compared when both sides lie in memory in the
same order (`layout_code`). A trace in "logical order" copies instead and can be compared with any layout.
"""

from __future__ import annotations

import binascii
import math
import threading

import numpy as np
import torch
import xxhash

from .layout import memory_layout, sample_positions

# the integer type that holds an element's bits, by element size
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.dtype("V16")}
# the real type in which numpy looks for NaN
FLOATS = {
    torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16,
    torch.complex64: np.float32, torch.complex128: np.float64,
}  # fmt: skip
PIECE = 512 << 10  # bytes
MIN_SCRATCH, MAX_SCRATCH = 1 << 20, 256 << 20  # bytes
EMPTY = xxhash.xxh3_128_hexdigest(b"")
_local = threading.local()


def tensor_digest(tensor: torch.Tensor, order: str = "memory") -> str | None:
    """Digest of any tensor that has bytes; None for one that has none (meta, fake).

    order: "memory" or "logical". Sparse and quantized tensors are digested by their parts.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        return _digest_of_parts(tensor)
    if tensor.is_contiguous() or order == "logical":
        return block_digest(tensor)
    dense, code = memory_order(tensor)
    return with_layout(block_digest(dense), code)


def block_digest(tensor: torch.Tensor) -> str | None:
    """xxh3-128 of the elements in logical order, NaN canonical."""
    if tensor.numel() == 0:
        return EMPTY
    try:
        tensor = _contiguous_on_host(tensor)
        words = _numpy_bytes(tensor)
    except (RuntimeError, NotImplementedError):  # no storage: meta, fake and wrapper subclasses
        return None
    digest = _hash(words, tensor.dtype)
    return digest if digest is not None else xxhash.xxh3_128_hexdigest(_numpy_bytes(_canonical_nan(tensor)))


def with_layout(digest: str | None, code: str) -> str | None:
    """The digest of a tensor from that of its elements in memory order and its layout."""
    return digest if digest is None or not code else xxhash.xxh3_128_hexdigest((digest + code).encode())


def memory_order(tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
    """(the tensor with its dimensions in memory order and broadcast ones reduced to one element, its layout code)."""
    order, code = memory_layout(tuple(tensor.shape), tensor.stride())
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor.permute(order), code


def sample_of(tensor: torch.Tensor, samples: int) -> str | None:
    """Base64 of up to `samples` elements at evenly spaced logical positions (`sample_positions`); None: no bytes."""
    if tensor.layout != torch.strided or tensor.is_quantized or not samples:
        return None
    positions = sample_positions(tensor.numel(), samples)
    if tensor.is_contiguous() and tensor.device.type == "cpu":
        words = _numpy_bytes(tensor) if tensor.numel() else np.empty(0, np.uint8)
        elements = words.view(BITS[tensor.element_size()])[positions]
        return binascii.b2a_base64(elements.tobytes(), newline=False).decode()
    try:
        places = np.unravel_index(positions, tuple(tensor.shape)) if tensor.dim() else ()
        chosen = tensor[tuple(torch.from_numpy(place).to(tensor.device) for place in places)]
        return binascii.b2a_base64(_numpy_bytes(_contiguous_on_host(chosen)).tobytes(), newline=False).decode()
    except (RuntimeError, NotImplementedError):
        return None


def bytes_digest(data: bytes | memoryview | np.ndarray) -> str:
    """xxh3-128 of raw bytes (generator states)."""
    return xxhash.xxh3_128_hexdigest(data)


def _contiguous_on_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else _scratch_copy(tensor)


def _scratch_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy in memory that is used again: fresh pages would cost more than the copy."""
    size = tensor.numel() * tensor.element_size()
    if size > MAX_SCRATCH:
        return tensor.contiguous()
    buffer = getattr(_local, "buffer", None)
    if buffer is None or buffer.numel() < size:
        buffer = _local.buffer = torch.empty(max(2 * size, MIN_SCRATCH), dtype=torch.uint8)
    return buffer[:size].view(tensor.dtype).view(tensor.shape).copy_(tensor)


def _numpy_bytes(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a contiguous host tensor, not copied."""
    # the base class's method: a recording watches Tensor.numpy
    return torch._C.TensorBase.numpy(tensor.detach().view(-1).view(torch.uint8))


def _hash(words: np.ndarray, dtype: torch.dtype) -> str | None:
    """Digest of the bytes, or None when they may hold a NaN. Both tests run over pieces that fit into the cache."""
    kind = FLOATS.get(dtype)
    if kind is None:
        return None if dtype.is_floating_point else xxhash.xxh3_128_hexdigest(words)
    if words.size <= PIECE:
        return None if np.isnan(words.view(kind).max()) else xxhash.xxh3_128_hexdigest(words)
    hasher = xxhash.xxh3_128()
    for start in range(0, words.size, PIECE):
        piece = words[start : start + PIECE]
        if np.isnan(piece.view(kind).max()):
            return None
        hasher.update(piece)
    return hasher.hexdigest()


def _canonical_nan(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    mask = (real.float() if real.element_size() == 1 else real).isnan()
    if not mask.any():
        return tensor
    if real.element_size() == 1:
        nan = torch.full((1,), math.nan, dtype=torch.float32).to(real.dtype)
        clean = torch.where(mask, nan.view(torch.uint8), real.view(torch.uint8))
        return clean
    return torch.where(mask, torch.full((), math.nan, dtype=real.dtype), real).contiguous()


def _digest_of_parts(tensor: torch.Tensor) -> str | None:
    parts = _parts(tensor)
    if parts is None:
        return None
    return bytes_digest("".join(str(tensor_digest(part)) for part in parts).encode())


def _parts(tensor: torch.Tensor) -> list[torch.Tensor] | None:
    if tensor.is_quantized:
        return [tensor.int_repr()]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return None
