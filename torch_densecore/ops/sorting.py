"""sort, argsort and topk: which of equal keys comes first is the C++ library's choice, so it is part of the reference."""

import torch

from torch_densecore.registry import INTEGRAL, kernel

KEYS = frozenset({torch.float32, torch.float64}) | INTEGRAL

kernel(
    "sort.stable sort.values_stable topk topk.values",
    KEYS,
    reason="equal keys in the order of libc++'s std::sort, std::partial_sort and std::nth_element; a stable sort is the host's",
    source="ATen/native/cpu/SortingKernel.cpp, TopKImpl.h; csrc/numerics/sorting/libcxx_order.h",
)
