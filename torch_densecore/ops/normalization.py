"""Normalization layers."""

from torch_densecore.registry import kernel

kernel(
    "native_layer_norm native_layer_norm_backward",
    reason="row moments by Welford's update on 4 lanes in a cascade; gradients of the parameters summed by the profile's threads",
    source="ATen/native/cpu/layer_norm_kernel.cpp, moments_utils.h; csrc/numerics/norm/layer_norm_kernel.cpp",
    groups="reduction",
    fields="threads",
)
