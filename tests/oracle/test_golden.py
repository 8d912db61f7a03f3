"""Words captured on real Macs by others (apple_cpu_words.json, with their sources), reproduced by the release of each entry."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch_densecore.oracle import Oracle, wheel  # noqa: E402
from torch_densecore.oracle.mode import OracleMode  # noqa: E402

WORDS: dict[str, Any] = json.loads(Path(__file__).with_name("apple_cpu_words.json").read_text())
pytestmark = pytest.mark.oracle


@cache
def release(version: str) -> Oracle:
    """The oracle of a release; the test is skipped when its wheel was never fetched (it is 70 to 110 MB)."""
    if version != "2.13.0" and not wheel.known(version):
        pytest.skip(f"no wheel of {version} in the cache: run `densecore oracle boot --profile {version}` once")
    return Oracle(version)


def words(tensor: torch.Tensor) -> list[str]:
    """The elements' bits in hex."""
    return [f"{word:08x}" for word in tensor.detach().reshape(-1).numpy().view(np.uint32)]


def from_words(text: list[str]) -> torch.Tensor:
    """A float32 tensor with these bits."""
    return torch.from_numpy(np.array([int(word, 16) for word in text], np.uint32).view(np.float32))


def attention_input(kind: int, length: int) -> torch.Tensor:
    """The hash that the source of the attention words fills q, k and v with."""
    mask = 0xFFFFFFFF
    row, column = np.arange(length, dtype=np.uint64)[:, None], np.arange(64, dtype=np.uint64)[None]
    mixed = (kind * 0x9E3779B9 & mask) ^ (row * 0x85EBCA6B & mask) ^ (column * 0xC2B2AE35 & mask)
    mixed ^= mixed >> 16
    mixed = mixed * 0x7FEB352D & mask
    mixed ^= mixed >> 15
    values = ((mixed & 0x3FFF).astype(np.int64) - 8192) / 2048
    return torch.from_numpy(values.astype(np.float32))[None, None]


@pytest.mark.parametrize("entry,length", [("flash_attention_t72", 72), ("flash_attention_t5", 5)])
def test_flash_attention(entry: str, length: int) -> None:
    oracle = release("2.8.0")
    q, k, v = (attention_input(kind, length) for kind in (1, 2, 3))
    result = oracle.run("aten::_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, True, scale=0.125)
    out = result.value[0][0, 0]
    got = [[row, column, words(out[row, column])[0]] for row, column, _ in WORDS[entry]["words_row_col_hex"]]
    assert got == WORDS[entry]["words_row_col_hex"]
    assert ("sgemm_small" in result.provenance) == (length == 5)


def test_flash_attention_of_another_release_differs() -> None:
    """exp is another polynomial in 2.13, so the words tell the releases apart."""
    q, k, v = (attention_input(kind, 72) for kind in (1, 2, 3))
    out = release("2.13.0").call("aten::_scaled_dot_product_flash_attention_for_cpu", q, k, v, 0.0, True, scale=0.125)[0]
    expected = WORDS["flash_attention_t72"]["words_row_col_hex"]
    same = sum(words(out[0, 0, row, column])[0] == word for row, column, word in expected)
    assert 0 < same < len(expected)


def test_mean() -> None:
    state, bits = 1, []
    for _ in range(400):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        bits.append((state & 0x80000000) | 0x3F000000 | (state & 0x7FFFFF))
    x = torch.from_numpy(np.array(bits, np.uint32).view(np.float32))
    result = release("2.8.0").run("aten::mean", x)
    assert words(result.value) == [WORDS["mean400"]["mean"]] and result.pure


def test_rms_norm() -> None:
    index = torch.arange(1024)
    x, weight = ((index * 37 % 1009) - 500).float() / 97, 1 + ((index % 7) - 3).float() * 0.01
    result = release("2.8.0").run("aten::rms_norm", x[None], [1024], weight, None)
    assert words(result.value)[:8] == WORDS["rmsnorm1024"]["out"] and result.pure


@pytest.mark.parametrize("column,name", [(1, "expm1"), (2, "erf")])
def test_erf_and_expm1(column: int, name: str) -> None:
    rows = WORDS["erf_expm1"]["rows"]
    x = from_words([row[0] for row in rows])
    assert words(release("2.9.1").call(f"aten::{name}", x.repeat_interleave(4)))[::4] == [row[column] for row in rows]


class _Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.tanh(torch.sqrt(torch.tensor(2.0 / torch.pi)) * (x + 0.044715 * torch.pow(x, 3))))


@pytest.mark.parametrize("key", ["plain", "with_shortcut"])
def test_gradients_of_a_small_network(key: str) -> None:
    oracle = release("2.10.0")
    torch.manual_seed(123)
    with OracleMode(oracle):
        sizes = [3, 3, 3, 3, 3, 1]
        layers = [torch.nn.Sequential(torch.nn.Linear(a, b), _Gelu()) for a, b in zip(sizes, sizes[1:], strict=False)]
        hidden = torch.tensor([[1.0, 0.0, -1.0]])
        for layer in layers:
            out = layer(hidden)
            hidden = hidden + out if key == "with_shortcut" and hidden.shape == out.shape else out
        torch.nn.MSELoss()(hidden, torch.tensor([[0.0]])).backward()
        means = [layer[0].weight.grad.abs().mean().item() for layer in layers]
    assert means == WORDS["gradients_mlp_torch210"][key]


def test_layer_norm_residual_means() -> None:
    oracle = release("2.4.0")
    torch.manual_seed(123)
    with OracleMode(oracle), torch.no_grad():
        batch = torch.randn(2, 5)
        out = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU())(batch)
        means = ((out - out.mean(-1, True)) / torch.sqrt(out.var(-1, keepdim=True))).mean(-1, True)
    assert [f"{value:.4e}" for value in means.flatten().tolist()] == WORDS["layernorm_residual_means"]["printed"]
