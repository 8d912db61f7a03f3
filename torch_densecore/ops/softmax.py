"""Softmax, log-softmax and their gradients."""

from torch_densecore.registry import kernel

REASON = "SLEEF exp and 4-lane sums over the last dimension; over another one, columns off a vector take the libm model (expf)"
SOURCE = "ATen/native/cpu/SoftMaxKernel.cpp, LogSoftmaxKernelImpl.h; csrc/numerics/softmax"

kernel(
    "_softmax _softmax.out _log_softmax _log_softmax.out _safe_softmax",
    reason=REASON,
    source=SOURCE,
    groups="reduction transcendental",
    fields="threads lanes lane_join exp libm",
)
kernel(
    "_softmax_backward_data _softmax_backward_data.out _log_softmax_backward_data _log_softmax_backward_data.out",
    reason=REASON,
    source=SOURCE,
    groups="reduction transcendental",
    fields="lanes lane_join contract exp libm",
)
