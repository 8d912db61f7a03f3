"""Ranges of floats. Ranges of integers are exact (data_movement.py)."""

from torch_densecore.registry import FLOAT32, kernel

kernel(
    "arange.start_out",
    FLOAT32,
    reason="start + step * i in double at every fourth element, fused float steps between; the profile's threads begin anew",
    source="ATen/native/cpu/RangeFactoriesKernel.cpp; csrc/numerics/pointwise/range_factories.cpp",
    fields="threads",
)
