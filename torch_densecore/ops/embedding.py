"""Lookup tables. `embedding` is torch's composite of index_select, which moves data only."""

from torch_densecore.registry import FLOAT32, kernel

kernel(
    "embedding_dense_backward",
    FLOAT32,
    reason="a row's gradients are added in the order of the indices",
    source="ATen/native/Embedding.cpp; csrc/numerics/embedding/embedding.cpp",
)
