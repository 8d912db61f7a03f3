"""Gradients of paddings. The paddings themselves move elements (data_movement.py)."""

from torch_densecore.registry import FLOAT32, exact

exact(
    " ".join(
        f"{kind}_pad{n}d_backward {kind}_pad{n}d_backward.grad_input" for kind in ("reflection", "replication") for n in (1, 2, 3)
    ),
    FLOAT32,
    reason="gradients that meet in an element are added in the order of the outputs",
    source="ATen/native/cpu/PaddingKernel.cpp",
)
