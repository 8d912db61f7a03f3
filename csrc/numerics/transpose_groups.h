// Groups of 4 lanes exchanged among the registers of several rows.
#pragma once

#include "lanes.h"

namespace densecore::DENSECORE_ISA {

// Group k of row r becomes group r of v[k].
template <class V>
DENSECORE_INLINE void transpose_groups(V (&v)[lane_count<V> / 4]) {
  if constexpr (lane_count<V> == 8) {
    const V first = __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 8, 9, 10, 11);
    v[1] = __builtin_shufflevector(v[0], v[1], 4, 5, 6, 7, 12, 13, 14, 15);
    v[0] = first;
  }
  if constexpr (lane_count<V> == 16) {
    const V low01 = __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const V low23 = __builtin_shufflevector(v[2], v[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const V high01 = __builtin_shufflevector(v[0], v[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const V high23 = __builtin_shufflevector(v[2], v[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    v[0] = __builtin_shufflevector(low01, low23, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    v[1] = __builtin_shufflevector(low01, low23, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    v[2] = __builtin_shufflevector(high01, high23, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    v[3] = __builtin_shufflevector(high01, high23, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
}

}  // namespace densecore::DENSECORE_ISA
