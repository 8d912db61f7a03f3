"""Ranges: arange of floats (of integers it is exact, data_movement.py), range of integers."""

import torch

from torch_densecore.registry import FLOAT32, INTEGRAL, kernel

kernel(
    "arange.start_out",
    FLOAT32,
    reason="start + step * i in double at every fourth element, fused float steps between; the profile's threads begin anew",
    source="ATen/native/cpu/RangeFactoriesKernel.cpp; csrc/numerics/pointwise/range_factories.cpp",
    fields="threads",
)

kernel(
    "range.out",
    INTEGRAL - {torch.bool},
    reason="the size is a quotient by the step as an integer; a step below 1 divides by zero, which Arm answers with 0",
    source="ATen/native/RangeFactories.cpp; csrc/aten/RangeFactories.cpp",
)
