"""arange of floats and range of integers, against the reference wheel."""

from __future__ import annotations

import pytest
import torch
from cpu_errors import assert_same_error
from hosts import assert_same_on_every_host

from torch_densecore import profile as profiles
from torch_densecore.certify import Call, bits, compare

D = "densecore"
# start, end, step; the sizes around the unrolled vectors and the threads' chunks (32768 elements a thread at least)
CASES = [(0.0, n * 0.1, 0.1) for n in (1, 3, 7, 8, 9, 15, 16, 17, 63, 300)] + [
    (0.5, 7.3, 0.37), (-3.0, 40.0, 1 / 3), (9.0, -2.0, -0.7), (0, 10, 2), (1e8, 1e8 + 50, 1.0), (0.0, 32767 * 0.3, 0.3),
    (0.1, 70000 * 0.7, 0.7), (0.0, 0.0, 1.0), (1e-3, 2.0, 1e-3), (-0.0, 4.0, 0.25), (float(2**24 - 20), float(2**24 + 90), 1.0),
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("threads", [1, 2, 3, 4, 8])
def test_reference(threads: int) -> None:
    calls = [Call(case, {"out": torch.empty(0)}, threads=threads) for case in CASES]
    calls.append(Call((0.0, 5.0, 0.1), {"out": torch.empty(5, 20).t()[:10, :5]}, threads=threads))  # strided, of the right size
    compare("aten::arange.start_out", calls).check()


# What the wheel gives for arange(0.5, 7.3, 0.37): the words of the oracle's result.
WORDS = """
3f000000 3f5eb852 3f9eb852 3fce147b 3ffd70a4 40166666 402e147b 4045c290
405d70a4 40751eb8 40866666 40923d71 409e147b 40a9eb85 40b5c290 40c1999a
40cd70a4 40d947ae 40e51eb8
""".split()


def test_words_of_the_wheel() -> None:
    x = torch.arange(0.5, 7.3, 0.37, device=D)
    assert [f"{word & 0xFFFFFFFF:08x}" for word in x.cpu().view(torch.int32).tolist()] == WORDS


def test_every_host_gives_the_same() -> None:
    assert_same_on_every_host(lambda: torch.arange(0.0, 70000 * 0.7, 0.7, device=D))


def test_threads_of_the_profile_matter() -> None:
    def made(threads: int) -> torch.Tensor:
        with profiles.use(threads=threads):
            return torch.arange(0.0, 70001 * 0.7, 0.7, device=D).cpu()

    assert made(1).shape == made(3).shape and not bits.same(made(1), made(3))


@pytest.mark.parametrize("arguments", [(1.0, 5.0, 0.0), (1.0, 5.0, -1.0), (float("nan"), 5.0, 1.0), (0.0, float("inf"), 1.0)])
def test_errors_are_the_cpu_s(arguments: tuple[float, float, float]) -> None:
    assert_same_error(lambda device: torch.arange(*arguments, device=device))


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_a_range_of_integers_whose_step_is_below_one_has_one_element(dtype: torch.dtype) -> None:
    made = torch.empty(0, dtype=dtype, device=D)
    assert torch.range(3, 9, 0.25, out=made).tolist() == [3] and made.tolist() == [3]
    assert torch.range(7, 2, -2, out=made).tolist() == [7, 5, 3]


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_bounds_that_disagree_with_a_step_below_one() -> None:
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        torch.range(3, 9, -0.25, out=torch.empty(0, dtype=torch.int64, device=D))
