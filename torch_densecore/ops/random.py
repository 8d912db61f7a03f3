"""Random fills and samples: the CPU generator's mt19937 stream, computed by our kernels or, for integers, by the host."""

import torch

from torch_densecore.registry import BOOL, FLOAT32, INTEGRAL, exact, kernel

SINGLE_DOUBLE = frozenset({torch.float32, torch.float64})

kernel(
    "uniform_",
    SINGLE_DOUBLE,
    reason="from + x * (to - from) is fused",
    source="ATen/native/cpu/DistributionTemplates.h; csrc/numerics/random/uniform.cpp",
)
kernel(
    "normal_ normal.Tensor_float normal.float_Tensor normal.Tensor_Tensor",
    SINGLE_DOUBLE,
    reason="Box-Muller; log, sin and cos by the libm model",
    source="ATen/native/cpu/DistributionTemplates.h; csrc/numerics/random/normal.cpp, serial.cpp",
)
kernel(
    "exponential_ cauchy_ geometric_",
    SINGLE_DOUBLE,
    reason="computed in float64 by the libm model (log, log1p, tan)",
    source="ATen/core/TransformationHelper.h; csrc/numerics/random/exponential.cpp, serial.cpp",
)
kernel(
    "log_normal_",
    FLOAT32,
    reason="computed in float64 by the libm model (log1p, sin, cos, exp)",
    source="ATen/core/TransformationHelper.h; csrc/numerics/random/serial.cpp",
)
kernel(
    "bernoulli_.float bernoulli_.Tensor bernoulli.out",
    SINGLE_DOUBLE | INTEGRAL,
    reason="a uniform number below p, compared as integers",
    source="ATen/native/cpu/DistributionTemplates.h; csrc/numerics/random/bernoulli.cpp",
)
kernel(
    "native_dropout",
    SINGLE_DOUBLE | BOOL,
    reason="bernoulli_ and two products an element",
    source="ATen/native/Dropout.cpp; csrc/aten/Distributions.cpp",
)
kernel(
    "multinomial",
    SINGLE_DOUBLE,
    reason="without replacement: the largest of weight / exponential; with replacement: sums in index order and a binary search",
    source="ATen/native/Distributions.cpp; csrc/aten/Distributions.cpp",
)
exact(
    "random_ random_.from random_.to",
    SINGLE_DOUBLE | INTEGRAL,
    reason="integers of the generator's words, converted once",
)
exact("randperm.generator_out", INTEGRAL, reason="swaps by integers of the generator's words")
