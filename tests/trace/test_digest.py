"""The digest sees every bit, order, sign and -0.0, and nothing of a NaN but its place."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_densecore.trace.digest import sample_of, tensor_digest
from torch_densecore.trace.layout import layout_code, sample_bytes, sample_positions
from torch_densecore.trace.storages import StorageBook
from torch_densecore.trace.ulp import ulp_distance

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_counts(dtype):
    words = torch.zeros(40, dtype=torch.uint8)
    values = words if dtype is torch.uint8 else words.view(dtype)
    seen = {tensor_digest(values)}
    for bit in range(8 if dtype is not torch.bool else 1):
        words[3] = 1 << bit
        seen.add(tensor_digest(values))
        words[3] = 0
    assert len(seen) == (9 if dtype is not torch.bool else 2)


def test_order_sign_and_negative_zero_count():
    base = torch.tensor([0.0, 1.0, 2.0])
    others = [torch.tensor(v) for v in ([-0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [0.0, -1.0, 2.0], [0.0, 1.0])]
    assert len({tensor_digest(t) for t in [base, *others]}) == 5


def test_nan_payload_and_sign_do_not_count_but_its_place_does():
    nans = torch.tensor([0x7FC00000, 0x7FC00001, -0x00400000, 0x7F800001], dtype=torch.int32).view(torch.float32)
    digests = {tensor_digest(torch.tensor([1.0, 2.0]).index_put((torch.tensor([0]),), nan)) for nan in nans}
    assert len(digests) == 1
    assert tensor_digest(torch.tensor([1.0, float("nan")])) not in digests
    assert tensor_digest(torch.tensor([float("inf"), 2.0])) not in digests


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64], ids=str)
def test_nan_of_other_dtypes(dtype):
    a, b = torch.ones(2, 4, dtype=dtype), torch.ones(2, 4, dtype=dtype)
    a[1, 2] = float("nan")
    b[1, 2] = -float("nan") if dtype.is_complex else torch.tensor(float("nan"), dtype=dtype).neg()
    assert tensor_digest(a) == tensor_digest(b) != tensor_digest(torch.ones(2, 4, dtype=dtype))


def test_large_tensors_are_hashed_in_pieces_as_in_one():
    import xxhash

    x = torch.randn(700_001)
    assert tensor_digest(x) == xxhash.xxh3_128_hexdigest(x.numpy().tobytes())
    x[650_000] = float("nan")
    y = x.clone()
    y.view(torch.int32)[650_000] = 0x7FC00123
    assert tensor_digest(x) == tensor_digest(y)


def test_memory_order_tells_layouts_apart_and_logical_order_does_not():
    x = torch.randn(3, 5, 7)
    permuted = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)  # the same values, lying otherwise
    assert torch.equal(x, permuted)
    assert tensor_digest(x) != tensor_digest(permuted)
    assert tensor_digest(x, "logical") == tensor_digest(permuted, "logical")
    assert layout_code(x.shape, x.stride()) != layout_code(permuted.shape, permuted.stride())


@pytest.mark.parametrize("view", [
    lambda x: x.t(), lambda x: x[:, 1:5], lambda x: x[::2], lambda x: x.t()[2:4], lambda x: x[:1].expand(6, 8),
    lambda x: x[:, 0], lambda x: x[0], lambda x: x.reshape(2, 3, 8).transpose(0, 2), lambda x: x[:, :0],
])  # fmt: skip
def test_views_have_the_same_digest_with_and_without_reuse(view):
    x = torch.randn(6, 8)
    book = StorageBook()
    book.digest(x, trusted=True)
    book.digest(x.t(), trusted=True)
    assert book.digest(view(x), trusted=True) == tensor_digest(view(x))
    changed = x.clone()
    changed[0, 1] += 1
    if view(x).numel() and not torch.equal(view(x), view(changed)):
        assert tensor_digest(view(x)) != tensor_digest(view(changed))


def test_known_digests_are_forgotten_after_a_write():
    x, book = torch.zeros(4), StorageBook()
    before = book.digest(x, trusted=True)
    x[0] = 1
    assert book.digest(x, trusted=True) == before  # nobody said so
    book.written(x)
    assert book.digest(x, trusted=True) != before


def test_storages_from_outside_are_hashed_every_time():
    array = np.zeros(4, np.float32)
    x, book = torch.from_numpy(array), StorageBook()
    before = book.digest(x, trusted=False)
    array[0] = 1
    assert book.digest(x, trusted=False) != before


def test_a_new_storage_at_an_old_address_is_not_taken_for_it():
    book = StorageBook()
    for value in range(200):
        x = torch.full((1000,), float(value))
        assert book.digest(x, trusted=True) == tensor_digest(x)
        del x


def test_samples_are_at_the_promised_positions():
    x = torch.arange(1000, dtype=torch.float32)
    for tensor in (x, x.reshape(10, 100).t(), x[:7], x[:1], x[:0], torch.tensor(5.0)):
        got = np.frombuffer(sample_bytes(sample_of(tensor, 16)), np.float32)
        assert got.tolist() == tensor.reshape(-1)[sample_positions(tensor.numel(), 16)].tolist()
    assert sample_positions(1000, 16)[[0, -1]].tolist() == [0, 999]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-1000, 1000))
def test_ulp_distance_counts_representable_values(word, step):
    x = np.array([word], np.uint32).view(np.float32)
    y = x.copy()
    for _ in range(abs(step) % 50):
        y = np.nextafter(y, np.float32(np.inf if step > 0 else -np.inf))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return
    # nextafter goes from -0 to the smallest positive number; here -0 and 0 are two values
    crossed = int(np.signbit(x[0]) != np.signbit(y[0]) or (x[0] == 0) != (y[0] == 0))
    distance = ulp_distance(x.tobytes(), y.tobytes(), "float32")[0]
    assert abs(distance - abs(step) % 50) <= crossed
    assert (distance == 0) == (x.tobytes() == y.tobytes())


def test_ulp_distance_of_zeros_nan_and_integers():
    def distance(a, b, dtype="float32"):
        kind = np.dtype(dtype)
        return ulp_distance(np.array([a], kind).tobytes(), np.array([b], kind).tobytes(), dtype)[0]

    assert distance(0.0, -0.0) == 1
    assert distance(float("nan"), 1.0) == float("inf")
    assert distance(float("nan"), float("nan")) == 0
    assert distance(3, 5, "int64") == 1
    assert distance(1.0, -1.0, "float64") > 2**53
