// The extreme of a whole tensor of doubles: reduce_all_impl_vec of ATen/native/cpu/ReduceAllOpsKernel.cpp. FMAX and FMIN do not depend
// on the order, so plain code gives their result; float, the dtype that programs reduce, has vectors (value_loops.cpp).
#pragma once

#include <cmath>
#include <cstdint>

namespace densecore {

// Of n > 0 elements: NaN if any is NaN; of zeros of both signs +0 is the maximum and -0 the minimum.
inline double extreme_range_f64(bool maximum, const double* x, int64_t n) {
  double value = x[0];
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return x[i];
    const bool beyond = maximum ? x[i] > value : x[i] < value;
    const bool other_zero = x[i] == value && std::signbit(value) == maximum;
    if (beyond || other_zero) value = x[i];
  }
  return value;
}

// Joins what the ranges gave; of equal zeros the first is taken.
inline double extreme_join_f64(bool maximum, const double* ranges, int count) {
  double value = ranges[0];
  for (int i = 1; i < count; ++i) {
    if (std::isnan(value) || std::isnan(ranges[i])) return value + ranges[i];
    if (maximum ? value < ranges[i] : ranges[i] < value) value = ranges[i];
  }
  return value;
}

}  // namespace densecore
