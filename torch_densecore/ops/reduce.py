"""Reductions: sums, products, extremes, norms and variances."""

import torch

from torch_densecore.registry import FLOAT32, exact, kernel

kernel(
    "sum.dim_IntList sum.IntList_out nansum nansum.out mean.dim mean.out",
    reason="cascade sum on 4-lane partial sums; the profile's threads sum apart",
    source="ATen/native/cpu/SumKernel.cpp, TensorIteratorReduce.cpp; csrc/numerics/reduce/SumKernel.cpp",
    groups="reduction",
    fields="threads lanes",
)
kernel(
    "prod prod.dim_int prod.int_out amax amax.out amin amin.out",
    reason="4 vectors of 4 lanes, joined in pairs; the profile's threads reduce apart. Of zeros of both signs the order decides",
    source="ATen/native/cpu/Reduce.h; csrc/numerics/reduce/value_loops.cpp",
    groups="reduction",
    fields="threads",
)
kernel(
    "max max.unary_out min min.unary_out aminmax aminmax.out",
    FLOAT32 | {torch.float64},
    reason="the profile's threads reduce apart, which decides among zeros of both signs",
    source="ATen/native/cpu/ReduceAllOpsKernel.cpp; csrc/numerics/reduce/value_loops.cpp",
    groups="reduction",
    fields="threads",
)
kernel(
    "linalg_vector_norm linalg_vector_norm.out norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype _foreach_norm.Scalar",
    reason="2-norm of contiguous rows on 4 lanes, else one element after the other, squares fused; other orders: libm model (powf)",
    source="ATen/native/cpu/ReduceOpsKernel.cpp; csrc/numerics/reduce/norm.cpp",
    groups="reduction",
    fields="threads",
)
kernel(
    "var.correction var.correction_out std.correction std.correction_out var_mean.correction std_mean.correction",
    reason="Welford's update, or two passes for a single output, in double with fused products",
    source="ATen/native/SharedReduceOps.h, ReduceOps.cpp; csrc/numerics/reduce/welford.cpp",
    groups="reduction",
    fields="threads",
)
exact(
    "cumsum cumsum.out cumprod cumprod.out",
    FLOAT32 | {torch.float64},
    reason="one element after the other, accumulated in double",
    source="ATen/native/cpu/ReduceOpsKernel.cpp",
    groups="reduction",
)
