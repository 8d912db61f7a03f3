// What the variant kernels share: a profile's choices of arithmetic, applied to one number after the other.
//
// A variant kernel serves the profiles whose arithmetic the certified kernels do not have: other lanes, other fusing, another exp. It is
// plain scalar code, compiled once, and slow. With the default choices it gives the certified kernel's bits, which a test shows.
#pragma once

#include <cstdint>

#include "../blas/ordered_dot.h"
#include "../lanes.h"
#include "../profile.h"

namespace densecore::variant {

inline float multiply_add(bool fused, float a, float b, float c) {
  return fused ? DENSECORE_ISA::fma(a, b, c) : a * b + c;
}

// Adds the lanes of a vector (a power of two, for halves); changes them.
inline float join_lanes(LaneJoin join, float* lane, int count) {
  if (join == LaneJoin::kAdjacent) return DENSECORE_ISA::sum_in_pairs(lane, count);
  if (join == LaneJoin::kInOrder) {
    for (int i = 1; i < count; ++i) lane[0] += lane[i];
    return lane[0];
  }
  for (int half = count / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// vec::reduce_all with + (ATen/cpu/vec/functional_base.h) over n > 0 elements: value(i) is element i, add(sum, i) a lane's sum with it.
template <class Value, class Add>
float reduce_row(const Profile& profile, int64_t n, const Value& value, const Add& add) {
  float lane[kMaxLanes] = {};
  if (n < profile.lanes) {
    for (int64_t i = 0; i < n; ++i) lane[i] = value(i);
    return join_lanes(LaneJoin::kInOrder, lane, static_cast<int>(n));
  }
  for (int64_t i = 0; i < n; ++i) lane[i % profile.lanes] = i < profile.lanes ? value(i) : add(lane[i % profile.lanes], i);
  return join_lanes(profile.lane_join, lane, profile.lanes);
}

// exp in vector code, exp in scalar code, log in vector code.
float exp_vector(const Profile& profile, float x);
float exp_scalar(const Profile& profile, float x);
float log_vector(float x);

}  // namespace densecore::variant
