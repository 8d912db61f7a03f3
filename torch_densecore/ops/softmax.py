"""Softmax, log-softmax and their gradients."""

from torch_densecore.registry import kernel

kernel(
    "_softmax _softmax.out _log_softmax _log_softmax.out _safe_softmax _softmax_backward_data _softmax_backward_data.out "
    "_log_softmax_backward_data _log_softmax_backward_data.out",
    reason="SLEEF exp and 4-lane sums over the last dimension; over another one, columns off a vector take the libm model (expf)",
    source="ATen/native/cpu/SoftMaxKernel.cpp, LogSoftmaxKernelImpl.h; csrc/numerics/softmax",
    groups="reduction transcendental",
    fields="threads",
)
