// Accelerate's sgemv and sdot, whose order of summation the profile's rule table gives (accelerate_rules.h).
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// y := alpha * op(A) * x + beta * y; A is m by n, column-major. trans is 'N' or 'T'; the increments are positive.
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
};

using GemvFn = void(const Profile& profile, const GemvCall& call);
DENSECORE_KERNEL(sgemv, GemvFn);

using DotFn = float(const Profile& profile, int64_t n, const float* x, int64_t incx, const float* y, int64_t incy);
DENSECORE_KERNEL(sdot, DotFn);

}  // namespace densecore
