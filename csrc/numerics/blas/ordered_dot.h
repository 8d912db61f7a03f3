// Dot products in a given SumOrder. Private to this folder.
#pragma once

#include "../lanes.h"
#include "../profile.h"

namespace densecore::DENSECORE_ISA {

struct Strided {
  const float* data;
  int64_t step;
  float operator[](int64_t i) const { return data[i * step]; }
};

// Adds count values in adjacent pairs, then the sums of pairs, and so on; an odd one waits for the next round.
inline float sum_in_pairs(float* values, int count) {
  while (count > 1) {
    for (int i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
    if (count % 2) values[count / 2] = values[count - 1];
    count = (count + 1) / 2;
  }
  return values[0];
}

inline float add_tail(float sum, Strided x, Strided y, int64_t begin, int64_t n, bool fused) {
  for (int64_t i = begin; i < n; ++i) {
    const float product = x[i] * y[i];
    sum = fused ? fma(x[i], y[i], sum) : sum + product;
  }
  return sum;
}

// Any order, element by element.
inline float ordered_dot(SumOrder order, int64_t n, Strided x, Strided y) {
  float sums[kMaxLanes][kMaxAccumulators] = {};
  const int64_t groups = n / order.lanes;
  for (int64_t g = 0; g < groups; ++g) {
    for (int lane = 0; lane < order.lanes; ++lane) {
      float& sum = sums[lane][g % order.accumulators];
      sum = fma(x[g * order.lanes + lane], y[g * order.lanes + lane], sum);
    }
  }
  // One lane: a chain that took no element is not added (it could only turn -0 into +0). Vectors are always added.
  const int used = order.lanes == 1 && n < order.accumulators ? static_cast<int>(n > 0 ? n : 1) : order.accumulators;
  float lanes[kMaxLanes];
  for (int lane = 0; lane < order.lanes; ++lane) lanes[lane] = sum_in_pairs(sums[lane], used);
  return add_tail(sum_in_pairs(lanes, order.lanes), x, y, groups * order.lanes, n, order.fused_tail);
}

constexpr bool is_four_by_four(SumOrder order) { return order.lanes == 4 && order.accumulators == 4; }

// Four accumulators of four lanes, held as one vector of 16: lanes 4 a .. 4 a + 3 are accumulator a. R rows of `rows`, `row_step`
// apart, against one y; both run along k without gaps.
template <int R>
DENSECORE_INLINE void dot_four_by_four(bool fused_tail, int64_t n, const float* rows, int64_t row_step, const float* y, float* out) {
  F32<16> sum[R] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F32<16> right = load<F32<16>>(y + i);
    for (int r = 0; r < R; ++r) sum[r] = fma(load<F32<16>>(rows + r * row_step + i), right, sum[r]);
  }
  const int64_t groups = (n - i) / 4;
  for (int r = 0; r < R; ++r) {
    const float* x = rows + r * row_step;
    F32<4> part[4];
    std::memcpy(part, &sum[r], sizeof(part));
    for (int64_t g = 0; g < groups; ++g) part[g] = fma(load<F32<4>>(x + i + 4 * g), load<F32<4>>(y + i + 4 * g), part[g]);
    const F32<4> lanes = (part[0] + part[1]) + (part[2] + part[3]);
    out[r] = add_tail((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]), {x, 1}, {y, 1}, i + 4 * groups, n, fused_tail);
  }
}

}  // namespace densecore::DENSECORE_ISA
