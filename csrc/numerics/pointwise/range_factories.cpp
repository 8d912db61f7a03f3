// arange: pairs of vectors of 4 lanes begin at a base that is computed in double and rounded, the lanes add multiples of the rounded
// step to it in float; what is left of the chunk is computed in double. Each is one fused multiply-add.
#include "range_factories.h"

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

void arange_f32(double start, double step, int64_t index, float* y, int64_t n) {
  const int64_t whole = n - n % 8;
  const float lane_step = static_cast<float>(step);
  for (int64_t i = 0; i < whole; i += 4) {
    const float base = static_cast<float>(fma(step, static_cast<double>(index + i), start));
    for (int lane = 0; lane < 4; ++lane) y[i + lane] = fma(static_cast<float>(lane), lane_step, base);
  }
  for (int64_t i = whole; i < n; ++i) y[i] = static_cast<float>(fma(step, static_cast<double>(index + i), start));
}

}  // namespace densecore::DENSECORE_ISA
