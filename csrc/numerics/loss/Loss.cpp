// The reference's loop is scalar code; of the difference of two products its compiler fuses the first.
#include "Loss.h"

#include "../math/libm.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr float kLeastLog = -100.0f;

// std::max(x, kLeastLog): NaN stays.
float at_least(float x) { return x < kLeastLog ? kLeastLog : x; }

}  // namespace

bool binary_cross_entropy_terms(const float* x, const float* target, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= 0 && x[i] <= 1 && target[i] >= 0 && target[i] <= 1)) return false;
    out[i] = fma(target[i] - 1.0f, at_least(libm::log1pf(-x[i])), -(target[i] * at_least(libm::logf(x[i]))));
  }
  return true;
}

}  // namespace densecore::DENSECORE_ISA
