// The matrix product of the reference's BLAS (Accelerate), single precision.
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// C := alpha * op(A) * op(B) + beta * D, column-major as in Fortran BLAS: op(A) is m by k, op(B) k by n, C m by n with leading
// dimensions lda, ldb, ldc. trans is 'N' or 'T'. D is read if beta != 0 only; element (i, j) is d[i * d_row + j * d_column], so
// it may be a broadcast row or column, or C itself.
struct GemmCall {
  char transa;
  char transb;
  int64_t m;
  int64_t n;
  int64_t k;
  float alpha;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta;
  const float* d;
  int64_t d_row;
  int64_t d_column;
  float* c;
  int64_t ldc;
};

// The profile's table must have a plain order for the call (BlasRule::plain).
using GemmFn = void(const Profile& profile, const GemmCall& call);
// On the host's threads; every output is one chain of roundings, so how they are shared out cannot change a bit.
DENSECORE_KERNEL(gemm_parallel, GemmFn);
// On the calling thread alone, for use inside a parallel task.
DENSECORE_KERNEL(gemm_serial, GemmFn);

// The product of at::native::cpublas (ATen/native/cpu/BlasKernel.cpp), which takes a matrix that BLAS does not: one whose rows overlap or
// are one and the same. transa and transb may not both be 'T'. On the calling thread.
DENSECORE_KERNEL(gemm_loops, GemmFn);

// Whether ATen hands A and B to BLAS (use_blas_gemm in ATen/native/CPUBlas.cpp): a leading dimension may not be smaller than a column,
// unless there is one column only.
constexpr bool suits_blas(char transa, char transb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb) {
  const int64_t a_column = transa == 'N' ? m : k, a_columns = transa == 'N' ? k : m;
  const int64_t b_column = transb == 'N' ? k : n, b_columns = transb == 'N' ? n : k;
  return (a_columns == 1 || lda >= a_column) && (b_columns == 1 || ldb >= b_column);
}

// Whether the reference's order for this shape is a provisional model (provenance "sgemm_small").
inline bool gemm_is_provisional(const Profile& profile, char transa, int64_t m, int64_t n, int64_t k) {
  return profile.blas->find(BlasRoutine::kGemm, transa, m, n, k)->provisional;
}

// Fortran's sgemm: C := alpha * op(A) * op(B) + beta * C.
inline void sgemm(const Profile& profile, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                  int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  gemm_parallel(profile, GemmCall{transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, 1, ldc, c, ldc});
}
// The same on the calling thread alone.
inline void sgemm_serial(const Profile& profile, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                         const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  gemm_serial(profile, GemmCall{transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, 1, ldc, c, ldc});
}

}  // namespace densecore
