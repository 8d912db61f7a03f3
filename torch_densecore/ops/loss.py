"""Losses."""

from torch_densecore.registry import FLOAT32, INTEGRAL, exact, kernel

kernel(
    "nll_loss_forward nll_loss_forward.output nll_loss2d_forward nll_loss2d_forward.output",
    reason="a cascade sum of 8 levels in scalar code, a class weight's product fused with the sum",
    source="ATen/native/LossNLL.cpp, LossNLL2d.cpp; csrc/numerics/loss/LossNLL.cpp",
    groups="reduction",
)
exact(
    "nll_loss_backward nll_loss_backward.grad_input nll_loss2d_backward nll_loss2d_backward.grad_input",
    FLOAT32 | INTEGRAL,
    reason="single IEEE operations an element",
    source="ATen/native/LossNLL.cpp, LossNLL2d.cpp",
)
kernel(
    "mse_loss smooth_l1_loss huber_loss",
    reason="the terms are IEEE operations that no host rounds otherwise; their sum is aten::sum's",
    source="ATen/native/Loss.cpp, cpu/BinaryOpsKernel.cpp; csrc/aten/Loss.cpp",
    groups="reduction",
    fields="threads",
)
kernel(
    "binary_cross_entropy",
    reason="logarithms by the libm model (logf, log1pf), one product fused with the difference; the sum is aten::sum's",
    source="ATen/native/Loss.cpp; csrc/numerics/loss/Loss.cpp",
)
exact(
    "binary_cross_entropy_backward binary_cross_entropy_backward.grad_input",
    FLOAT32,
    reason="products, differences and a quotient, none of which a compiler can fuse into another rounding",
    source="ATen/native/Loss.cpp",
)
exact(
    "mse_loss_backward mse_loss_backward.grad_input",
    FLOAT32,
    reason="two products and a difference an element",
    source="ATen/native/cpu/PointwiseOpsKernel.cpp",
)
