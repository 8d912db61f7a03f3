"""Indexing with tensors. Lookups move elements (data_movement.py); only accumulation computes."""

import torch

from torch_densecore.registry import INTEGRAL, exact, kernel

FLOAT_DOUBLE = frozenset({torch.float32, torch.float64})

kernel(
    "_index_put_impl_",
    FLOAT_DOUBLE | INTEGRAL,
    reason="elements that share a place are added in the order of the indices, on one thread",
    source="ATen/native/cpu/IndexKernel.cpp; csrc/aten/TensorAdvancedIndexing.cpp",
)
kernel(
    "index_add index_add_ index_add.out",
    FLOAT_DOUBLE | INTEGRAL,
    reason="slices are added in the order of the indices; floats with an alpha of 1 only",
    source="ATen/native/TensorAdvancedIndexing.cpp; csrc/aten/TensorAdvancedIndexing.cpp",
)
exact(
    "scatter_add scatter_add_ scatter_add.out scatter_reduce.two scatter_reduce_.two scatter_reduce.two_out",
    FLOAT_DOUBLE | INTEGRAL,
    reason="elements that share a place are combined in the order of the indices, each by one IEEE operation",
    source="ATen/native/cpu/ScatterGatherKernel.cpp",
)
