"""Pooling: maxima are selected, means are summed in the order of the window, for every output alike."""

import torch

from torch_densecore.registry import FLOAT32, exact

exact(
    " ".join(
        f"{op} {op}.out {op}_backward {op}_backward.grad_input"
        for op in ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
    ),
    FLOAT32 | {torch.int64},
    reason="selects elements by comparison; gradients are added in the order of the outputs",
    source="ATen/native/cpu/MaxPoolKernel.cpp, AdaptiveMaxPoolKernel.cpp",
)
exact(
    "avg_pool2d avg_pool2d.out avg_pool2d_backward avg_pool2d_backward.grad_input _adaptive_avg_pool2d "
    "_adaptive_avg_pool2d_backward adaptive_avg_pool2d.out avg_pool3d avg_pool3d.out avg_pool3d_backward "
    "avg_pool3d_backward.grad_input _adaptive_avg_pool3d _adaptive_avg_pool3d_backward adaptive_avg_pool3d.out",
    FLOAT32,
    reason="a window is summed element by element and divided; vector lanes hold channels, which never meet",
    source="ATen/native/cpu/AvgPoolKernel.cpp, AdaptiveAvgPoolKernel.cpp",
)
