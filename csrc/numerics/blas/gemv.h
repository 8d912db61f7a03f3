// Accelerate's sgemv and sdot, whose order of summation the profile's rule table gives (accelerate_rules.h).
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// y := alpha * op(A) * x + beta * y; A is m by n, column-major. trans is 'N' or 'T'. y is not read if beta is 0.
struct GemvCall {
  char trans;
  int64_t m;
  int64_t n;
  float alpha;
  const float* a;
  int64_t lda;
  const float* x;
  int64_t incx;
  float beta;
  float* y;
  int64_t incy;

  bool suits_blas() const { return incx > 0 && incy > 0; }
  int64_t outputs() const { return trans == 'N' ? m : n; }
  int64_t depth() const { return trans == 'N' ? n : m; }
};

// The profile's table must have a plain order for the call (BlasRule::plain).
using GemvFn = void(const Profile& profile, const GemvCall& call);
// What torch does for a matrix and a vector: sgemv, or, for an increment that BLAS does not take (0, of an expanded vector), its own
// loops (at::native::gemv in ATen/native/BlasKernel.cpp).
DENSECORE_KERNEL(gemv, GemvFn);

using DotFn = float(const Profile& profile, int64_t n, const float* x, int64_t incx, const float* y, int64_t incy);
DENSECORE_KERNEL(sdot, DotFn);

}  // namespace densecore
