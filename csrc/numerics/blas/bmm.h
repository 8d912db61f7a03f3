// torch's own loops for small batched products (baddbmm_cpu_kernel in ATen/native/LinearAlgebra.cpp): no BLAS takes part.
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// A batch of matrices: element (b, i, j) is data[b * batch + i * row + j * column].
template <class T>
struct MatrixBatch {
  T* data;
  int64_t batch;
  int64_t row;
  int64_t column;
};

// r[b] := alpha * left[b] * right[b] + beta * r[b]; left is m by k, right k by n. r is not read if beta is 0.
struct BmmCall {
  int64_t count;
  int64_t m;
  int64_t n;
  int64_t k;
  float alpha;
  float beta;
  MatrixBatch<const float> left;
  MatrixBatch<const float> right;
  MatrixBatch<float> result;
};

// m * n * k below which torch takes these loops.
inline constexpr int64_t kBmmLoopLimit = 400;

using BmmFn = void(const Profile& profile, const BmmCall& call);
DENSECORE_KERNEL(bmm_loops, BmmFn);

}  // namespace densecore
