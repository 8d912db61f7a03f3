"""{op: [calls, refused, elements off]} of the device under a profile that a probe of this host wrote, beside the CPU ops."""

import itertools
import json
from collections.abc import Callable

import torch
import torch.nn.functional as F

import torch_densecore
from torch_densecore.certify.bits import unequal

LENGTHS = (1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 127, 300, 385, 1000, 4099)
SIDES = (1, 2, 3, 5, 8, 12, 17, 33, 64, 130, 300)
DEPTHS = (2, 5, 16, 64, 193, 385, 700)

found: dict[str, list[int]] = {}


def compare(name: str, function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    counts = found.setdefault(name, [0, 0, 0])
    counts[0] += 1
    wanted = function(*inputs)
    torch_densecore.accept_cpu_draws()
    try:
        result = function(*(tensor.to("densecore") for tensor in inputs)).cpu()
    except torch_densecore.UncertifiedOpError:
        counts[1] += 1
    else:
        counts[2] += int(unequal(result.contiguous(), wanted.contiguous()).sum())


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
        for name in ("mm", "large mm") if m >= 17 and n >= 17 else ("mm",):
            for left, right in ((a, b), (a, turned[1]), (turned[0], b)):
                compare(name, torch.mm, left, right)
            compare(name, lambda s, x, y: torch.addmm(s, x, y, beta=0.3, alpha=0.7), start, a, b)
            compare(name, torch.addmm, start[0], a, turned[1])
        if n == 1:
            compare("mv", torch.mv, a, b[:, 0])
            compare("mv", torch.mv, turned[0], b[:, 0])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
