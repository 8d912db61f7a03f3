"""Matrix products."""

from torch_densecore.registry import INTEGRAL, exact, kernel

LINEAR_ALGEBRA = "ATen/native/LinearAlgebra.cpp; csrc/numerics/blas"
SGEMM = "Accelerate's sgemm: one fused chain over k per output, beta * C last; small products by the profile's rules"
BLAS = "ATen/native/Blas.cpp, BlasKernel.cpp; csrc/numerics/blas"

kernel(
    "mm mm.out addmm addmm.out addmm_ addbmm addbmm.out addbmm_",
    reason=SGEMM,
    source=LINEAR_ALGEBRA,
    fields="blas fma",
)
kernel(
    "_addmm_activation _addmm_activation.out",
    reason=SGEMM,
    source=LINEAR_ALGEBRA,
    fields="blas",
)
kernel(
    "bmm bmm.out baddbmm baddbmm.out baddbmm_",
    reason="sgemm for each matrix; below m * n * k = 400 torch's own loops, whose fusing depends on the strides along k",
    source=LINEAR_ALGEBRA,
    fields="blas fma contract",
)
kernel(
    "addmv addmv.out addmv_",
    reason="Accelerate's sgemv by the profile's provisional rules; torch's own fused loops for an expanded vector",
    source=BLAS,
    fields="blas fma contract",
)
kernel("dot vdot", reason="Accelerate's sdot by the profile's provisional rules", source=BLAS, fields="blas fma")
kernel(
    "addr addr.out",
    reason="beta * self + alpha * vec1 * vec2: fused in loop tails, not in whole vectors",
    source="ATen/native/cpu/LinearAlgebraKernel.cpp; csrc/numerics/blas/addr.cpp",
    fields="threads",
)
exact(
    "mm mm.out addmm addmm.out addmm_ addbmm addbmm.out addbmm_ bmm bmm.out baddbmm baddbmm.out baddbmm_ addmv addmv.out addmv_ "
    "dot vdot addr addr.out",
    INTEGRAL,
    reason="integer sums are the same in any order",
)
