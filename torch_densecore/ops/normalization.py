"""Normalization layers."""

from torch_densecore.registry import kernel

kernel(
    "native_layer_norm",
    reason="row moments by Welford's update on 4 lanes in a cascade",
    source="ATen/native/cpu/layer_norm_kernel.cpp, moments_utils.h; csrc/numerics/norm/layer_norm_kernel.cpp",
    groups="reduction",
    fields="lanes fma contract",
)
kernel(
    "native_layer_norm_backward",
    reason="row sums on 4 lanes; gradients of the parameters summed by the profile's threads",
    source="ATen/native/cpu/layer_norm_kernel.cpp; csrc/numerics/norm/layer_norm_kernel.cpp",
    groups="reduction",
    fields="threads",
)
