"""{op: [calls, refused, elements off]} of the device under a probed profile, beside the probed machine's results.

These are the CPU ops', or with an argument `wheel` the device's own under the default profile.
"""

import itertools
import json
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F

import torch_densecore
from torch_densecore import profile
from torch_densecore.certify.bits import unequal

LENGTHS = (1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 127, 300, 385, 1000, 4099)
SIDES = (1, 2, 3, 5, 8, 12, 17, 33, 64, 130, 300)
DEPTHS = (1, 2, 5, 16, 64, 193, 385, 700)

found: dict[str, list[int]] = {}


def compare(name: str, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    counts = found.setdefault(name, [0, 0, 0])
    counts[0] += 1
    torch_densecore.accept_cpu_draws()
    on_device = [tensor.to("densecore") for tensor in inputs]
    wanted = of_the_wheel(function, *on_device) if "wheel" in sys.argv else function(*inputs)
    try:
        result = function(*on_device).cpu()
    except torch_densecore.UncertifiedOpError:
        counts[1] += 1
    else:
        counts[2] += int(unequal(result.contiguous(), wanted.contiguous()).sum())


def of_the_wheel(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    with profile.use("2.13.0"):
        return function(*inputs).cpu()


def kind(m: int, n: int, k: int) -> str:
    if m * n * k < 4:
        return "tiny"
    if k == 1:
        return "single"
    if max(m, n) <= 33 and k <= 385:  # in the grid of a quick probe
        return "small"
    return "large" if min(m, n) >= 17 else "narrow"


def main() -> None:
    torch.manual_seed(11)
    for n in LENGTHS:
        x, weight, bias = torch.randn(37, n) * 3, torch.randn(n), torch.randn(n)
        compare("sum", lambda t: t[:, ::2].sum(-1), torch.randn(37, 2 * n))  # the slice on the device: a copy would lose its steps
        compare("sum", lambda t: t[:, ::2].sum(), torch.randn(37, 2 * n))
        for each in (x, x.t().contiguous().t(), x[1:]):
            compare("sum", lambda t: t.sum(-1), each)
            compare("sum", lambda t: t.sum(0), each)
            compare("sum", lambda t: t.sum(), each)
            compare("softmax", lambda t: F.softmax(t, -1), each)
            compare("softmax", lambda t: F.softmax(t, 0), each)
            compare("layer_norm", lambda t, w, b: F.layer_norm(t, w.shape, w, b), each, weight, bias)
            compare("layer_norm", lambda t, w: F.layer_norm(t, w.shape), each, weight)
    for n in (32767, 32769, 100003):
        compare("sum", lambda t: t.sum(), torch.randn(n))
    for m, n, k in itertools.product(SIDES, SIDES, DEPTHS):
        a, b, start = torch.randn(m, k), torch.randn(k, n), torch.randn(m, n)
        turned = a.t().contiguous().t(), b.t().contiguous().t()
        name = kind(m, n, k)
        for left, right in ((a, b), (a, turned[1]), (turned[0], b)):
            compare(f"{name} mm", torch.mm, left, right)
        compare(f"{name} mm", lambda s, x, y: torch.addmm(s, x, y, beta=0.3, alpha=0.7), start, a, b)
        compare(f"{name} mm", torch.addmm, start[0], a, turned[1])
        if n == 1:
            compare(f"{name} mv", torch.mv, a, b[:, 0])
            compare(f"{name} mv", torch.mv, turned[0], b[:, 0])
            compare(f"{name} mv", lambda s, x, y: torch.addmv(s, x, y, beta=0.3, alpha=0.7), start[:, 0], a, b[:, 0])
        if m == n == 1:
            compare(f"{name} dot", torch.dot, a[0], b[:, 0])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
