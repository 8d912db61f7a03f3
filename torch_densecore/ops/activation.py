"""Activations and their derivatives that call exp, erf, tanh or log, or fuse a multiply-add in loop tails."""

from torch_densecore.registry import FLOAT32, exact, kernel

SOURCE = "ATen/native/cpu/Activation.cpp; csrc/numerics/pointwise/activation.cpp"

kernel(
    "gelu gelu_ gelu.out gelu_backward gelu_backward.grad_input",
    reason="erf of the group of 4 lanes, or SLEEF tanh; the libm model (erff, expf, tanhf) and fused multiply-adds in loop tails",
    source=SOURCE,
    groups="transcendental",
    fields="threads",
)
kernel(
    "silu silu_ silu.out silu_backward silu_backward.grad_input mish mish_ mish.out mish_backward glu glu.out",
    reason="SLEEF in pairs of whole vectors; the libm model (expf, log1pf, tanhf) and fused multiply-adds in loop tails",
    source=SOURCE,
    groups="transcendental",
    fields="threads",
)
kernel(
    "softplus softplus.out softplus_backward softplus_backward.grad_input elu elu_ elu.out elu_backward elu_backward.grad_input",
    reason="SLEEF in pairs of whole vectors; the libm model (expf, log1pf, expm1f) in loop tails",
    source=SOURCE,
    groups="transcendental",
    fields="threads",
)
kernel(
    "tanh_backward tanh_backward.grad_input",
    reason="grad * (1 - y * y): fused in loop tails, not in whole vectors",
    source="ATen/native/cpu/BinaryOpsKernel.cpp; csrc/numerics/pointwise/activation.cpp",
    fields="threads",
)
kernel(
    "softshrink softshrink.out softshrink_backward softshrink_backward.grad_input hardshrink_backward "
    "hardshrink_backward.grad_input hardtanh_backward hardtanh_backward.grad_input hardswish_backward",
    reason="vector and scalar code treat NaN and the sign of zeros differently, so the tail's place decides",
    source=SOURCE,
    fields="threads",
)
kernel(
    "log_sigmoid_forward",
    reason="SLEEF exp and log1p for every element",
    source=SOURCE,
    groups="transcendental",
)
exact(
    "leaky_relu leaky_relu_ leaky_relu.out leaky_relu_backward leaky_relu_backward.grad_input hardsigmoid hardsigmoid_ "
    "hardsigmoid.out hardsigmoid_backward hardsigmoid_backward.grad_input hardswish hardswish_ hardswish.out hardshrink "
    "hardshrink.out _prelu_kernel _prelu_kernel_backward sigmoid_backward sigmoid_backward.grad_input log_sigmoid_backward "
    "log_sigmoid_backward.grad_input",
    FLOAT32,
    reason="sums, products, quotients and comparisons, none of which a compiler can fuse into another rounding",
    source="ATen/native/cpu/Activation.cpp, BinaryOpsKernel.cpp",
)
