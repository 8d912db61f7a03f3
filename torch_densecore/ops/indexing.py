"""Indexing with tensors. Lookups move elements (data_movement.py); only accumulation computes."""

import torch

from torch_densecore.registry import INTEGRAL, kernel

kernel(
    "_index_put_impl_",
    frozenset({torch.float32, torch.float64}) | INTEGRAL,
    reason="elements that share a place are added in the order of the indices, on one thread",
    source="ATen/native/cpu/IndexKernel.cpp; csrc/aten/TensorAdvancedIndexing.cpp",
)
