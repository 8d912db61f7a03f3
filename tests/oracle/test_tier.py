"""The oracle as a tier: on CPU tensors, and behind the device where the extension is built."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")

from torch_densecore import profile as profiles  # noqa: E402
from torch_densecore.certify import bits  # noqa: E402
from torch_densecore.oracle import UnsupportedRoutine, tier  # noqa: E402

pytestmark = pytest.mark.oracle
needs_device = pytest.mark.skipif(
    importlib.util.find_spec("torch_densecore._C") is None, reason="the extension is not built"
)


def test_values_and_provenance() -> None:
    x = torch.randn(64)
    before = tier.calls["aten::erf"]
    assert torch.allclose(tier.run("aten::erf", "", (x,)), x.erf(), atol=1e-6)
    assert tier.calls["aten::erf"] == before + 1 and "aten::erf" in tier.provenance


def test_written_arguments_are_the_callers_own() -> None:
    x, out = torch.ones(3), torch.empty(0)
    assert tier.run("aten::add_", "Tensor", (x, 1.0)) is x and x.tolist() == [2.0] * 3
    assert tier.run("aten::exp", "out", (x,), {"out": out}) is out and out.shape == (3,)
    assert tier.run("aten::_foreach_add_", "Scalar", ([x], 1.0)) is None and x.tolist() == [3.0] * 3


def test_views_share_their_storage() -> None:
    base = torch.zeros(6)
    tier.run("aten::fill_", "Scalar", (base[1:3], 5.0))
    assert base.tolist() == [0, 5, 5, 0, 0, 0]


def test_random_stream_goes_on() -> None:
    torch.manual_seed(5)
    expected = torch.rand(4), torch.rand(4)
    torch.manual_seed(5)
    assert torch.equal(tier.run("aten::rand", "", ([4],)), expected[0])
    assert torch.equal(torch.rand(4), expected[1])


def test_threads_of_the_current_profile() -> None:
    x = torch.randn(1 << 17, generator=torch.Generator().manual_seed(0))
    sums = set()
    for threads in (1, 2, 4):
        with profiles.use(threads=threads):
            sums.add(tier.run("aten::sum", "", (x,)).item())
    assert len(sums) > 1


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tier.run("aten::mm", "", (torch.ones(2, 3), torch.ones(2, 3)))
    with pytest.raises(UnsupportedRoutine, match="spotrf"):
        tier.run("aten::cholesky", "", (torch.eye(3),))


@needs_device
def test_mode_oracle_of_the_device() -> None:
    from torch_densecore import strictness

    x = torch.randn(5, 7).double()  # erfinv has no kernel and no certificate
    device = x.clamp(-0.9, 0.9).to("densecore")
    before = tier.calls["aten::erfinv"]
    with strictness.uncertified("oracle"):
        got = torch.erfinv(device)
        device.erfinv_()
    assert tier.calls["aten::erfinv"] == before + 1 and got.device.type == "densecore"
    expected = tier.run("aten::erfinv", "", (x.clamp(-0.9, 0.9),))
    assert bits.same(got.cpu(), expected) and bits.same(device.cpu(), expected)
