"""normal_ and uniform_ from a stored generator state: ATen's vectorised block algorithms and its scalar ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import torch

from ...replay import Call
from ..arith import F32, Array, fma, multiply_add
from ..functions import Function, correctly_rounded, libm
from ..model import Family, Model, model

BLOCK = 16  # values per Box-Muller block of normal_fill
STATE_WORDS = 624


def _normal(call: Call) -> Iterator[Model]:
    """Nothing when the generator's state was not stored."""
    if call.rng is None or call.site.outputs[0]["dtype"] != "float32":
        return
    mean, std = _two_numbers(call, "mean", "std")
    shape = tuple(call.site.outputs[0]["shape"])
    size = int(np.prod(shape, dtype=int))
    if size >= BLOCK:
        for words, block in (
            ("blocks of 16 by Box-Muller, scalar code with correctly rounded functions", _box_muller(*EXACT)),
            ("blocks of 16 by Box-Muller, scalar code with this machine's C library", _box_muller(*_host_functions())),
            ("blocks of 16 by Box-Muller, AVX2 code with Cephes polynomials, fused", _vector_box_muller(True)),
            ("blocks of 16 by Box-Muller, AVX2 code with Cephes polynomials, rounded", _vector_box_muller(False)),
        ):
            yield model(lambda b=block: _blocks(call.rng, size, mean, std, shape, b), algorithm=words)
    scalar = "one value at a time in double precision"
    yield model(lambda: _scalars(call.rng, size, mean, std, shape), algorithm=scalar)


def _uniform(call: Call) -> Iterator[Model]:
    if call.rng is None or call.site.outputs[0]["dtype"] != "float32":
        return
    low, high = (F32(v) for v in _two_numbers(call, "from", "to"))
    shape = tuple(call.site.outputs[0]["shape"])
    u = _uniform24(Twister(call.rng).words(int(np.prod(shape, dtype=int)))).reshape(shape)
    for words, fused in (
        ("24-bit numbers scaled with fused multiply-add", True),
        ("24-bit numbers, scaled, then shifted", False),
    ):
        yield model(lambda f=fused: multiply_add(u, high - low, low, f), algorithm=words)


def _two_numbers(call: Call, first: str, second: str) -> tuple[float, float]:
    """The distribution's parameters; (0, 1) by default."""
    args, kwargs = call.site.args
    values = [kwargs.get(first, 0.0), kwargs.get(second, 1.0)]
    for i, value in enumerate(v for v in args[1:] if isinstance(v, (int, float))):
        values[i] = value
    return values[0], values[1]


class Twister:
    """The CPU generator's MT19937, continued from a state as `torch.get_rng_state` gives it."""

    def __init__(self, state: torch.Tensor) -> None:
        data = state.numpy().tobytes()
        # data: seed, left, seeded, next (uint64 each where aligned), then 624 words of 8 bytes
        self._seed, left, seeded, next_ = struct.unpack_from("<QiiQ", data)
        words = np.frombuffer(data, np.uint64, STATE_WORDS, 24).astype(np.uint32)
        generator = np.random.MT19937()
        # torch's `left` counts down to a refill: 624 words are used up when left is 1
        generator.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": STATE_WORDS + 1 - left}}
        self._generator = generator

    def words(self, count: int) -> Array:
        """The next 32-bit outputs."""
        return self._generator.random_raw(count).astype(np.uint32)


def _uniform24(words: Array) -> Array:
    return ((words & 0xFFFFFF).astype(F32) * F32(2.0**-24)).astype(F32)


EXACT = tuple(correctly_rounded(function) for function in (np.log, np.cos, np.sin))


def _host_functions() -> tuple[Function, ...]:
    """log, cos and sin of this machine's C library, where it has them."""
    return tuple(libm(name) or exact for name, exact in zip(("logf", "cosf", "sinf"), EXACT, strict=True))


def _box_muller(log: Function, cos: Function, sin: Function) -> Callable[[Array, float, float], Array]:
    """Blocks (n, 16): value j pairs with value j + 8."""

    def block(u: Array, mean: float, std: float) -> Array:
        u1, u2 = F32(1) - u[:, :8], u[:, 8:]
        radius = np.sqrt(F32(-2) * log(u1)).astype(F32)
        theta = (2.0 * np.pi * u2.astype(np.float64)).astype(F32)
        parts = [radius * cos(theta), radius * sin(theta)]
        return np.concatenate([p * F32(std) + F32(mean) for p in parts], 1).astype(F32)

    return block


def _vector_box_muller(fused: bool) -> Callable[[Array, float, float], Array]:
    """x86's normal_fill_16_AVX2: log and sincos by the single-precision polynomials of Cephes."""

    def block(u: Array, mean: float, std: float) -> Array:
        u1, u2 = F32(1) - u[:, :8], u[:, 8:]
        radius = np.sqrt(F32(-2) * _cephes_log(u1, fused)).astype(F32)
        sine, cosine = _cephes_sincos(F32(2 * np.pi) * u2, fused)
        parts = [radius * cosine, radius * sine]
        return np.concatenate([fma(p, F32(std), F32(mean)) for p in parts], 1)

    return block


def _cephes_log(x: Array, fused: bool) -> Array:
    """Cephes logf of positive normal numbers."""
    bits = x.view(np.int32)
    e = ((bits >> 23) - 126).astype(F32)
    m = ((bits & 0x7FFFFF) | 0x3F000000).view(F32)
    small = m < F32(0.707106781186547524)
    e = e - small.astype(F32)
    m = (m - F32(1)) + np.where(small, m, F32(0))
    z = m * m
    y = np.full_like(m, 7.0376836292e-2)
    for c in (-1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
              2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1):  # fmt: skip
        y = multiply_add(y, m, F32(c), fused)
    y = multiply_add(e, F32(-2.12194440e-4), y * m * z, False) if not fused else _fused_log_step(y, m, z, e)
    y = multiply_add(-z, F32(0.5), y, fused)
    return multiply_add(e, F32(0.693359375), m + y, fused)


def _fused_log_step(y: Array, m: Array, z: Array, e: Array) -> Array:
    """y * m * z + e * c, where the compiler fuses the last product of the left term."""
    return fma(y * m, z, e * F32(-2.12194440e-4))


def _cephes_sincos(x: Array, fused: bool) -> tuple[Array, Array]:
    """Cephes sinf and cosf of non-negative numbers."""
    j = (x * F32(1.27323954473516)).astype(np.int32)
    j = (j + 1) & ~1
    y = j.astype(F32)
    for c in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):
        x = multiply_add(y, F32(c), x, fused)
    z = x * x
    c = multiply_add(np.full_like(z, 2.443315711809948e-5), z, F32(-1.388731625493765e-3), fused)
    c = multiply_add(c, z, F32(4.166664568298827e-2), fused) * z
    c = multiply_add(-z, F32(0.5), c * z, fused) if not fused else fma(c, z, -(z * F32(0.5)))
    c = c + F32(1)
    s = multiply_add(np.full_like(z, -1.9515295891e-4), z, F32(8.3321608736e-3), fused)
    s = multiply_add(s, z, F32(-1.6666654611e-1), fused) * z
    s = multiply_add(s, x, x, fused)
    swap = (j & 2) != 0
    sine, cosine = np.where(swap, c, s), np.where(swap, s, c)
    sine = np.where((j & 4) != 0, -sine, sine)
    return sine, np.where(((j - 2) & 4) == 0, -cosine, cosine)


def _blocks(
    state: torch.Tensor, size: int, mean: float, std: float, shape: tuple[int, ...], block: Callable[..., Array]
) -> Array:
    twister = Twister(state)
    u = _uniform24(twister.words(size))
    whole = size // BLOCK * BLOCK
    out = np.empty(size, F32)
    out[:whole] = block(u[:whole].reshape(-1, BLOCK), mean, std).reshape(-1)
    if whole < size:  # the last 16 values are drawn anew
        out[size - BLOCK :] = block(_uniform24(twister.words(BLOCK)).reshape(1, BLOCK), mean, std).reshape(-1)
    return out.reshape(shape)


def _scalars(state: torch.Tensor, size: int, mean: float, std: float, shape: tuple[int, ...]) -> Array:
    pairs = -(-size // 2)
    words = Twister(state).words(4 * pairs).reshape(pairs, 2, 2).astype(np.uint64)
    random53 = ((words[..., 0] << np.uint64(32)) | words[..., 1]) & np.uint64((1 << 53) - 1)
    u = random53.astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2.0 * np.log1p(-u[:, 1]))
    theta = 2.0 * np.pi * u[:, 0]
    values = np.stack([radius * np.cos(theta), radius * np.sin(theta)], 1).reshape(-1)[:size]
    return (values * std + mean).astype(F32).reshape(shape)


# older releases draw in one operator: randn rather than empty and normal_
FAMILIES: dict[str, Family] = {"normal_": _normal, "randn": _normal, "uniform_": _uniform, "rand": _uniform}
