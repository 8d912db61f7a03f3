// The reference's group of 4 lanes, where its bits depend on it.
//
// Some vector functions of the reference (exp_u20 and so erf, sin, cos, tan) take another path for all 4 lanes of a vector when one of
// them is special, which changes the bits of its neighbours. Here lanes are grouped by 4 from lane 0 of a register: the caller
// loads a register where a vector of the reference begins, and fills lanes that the reference does not have with zeros.
#pragma once

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

// All ones in every lane of a group of 4 lanes in which any lane of the mask is set.
template <class I>
DENSECORE_INLINE I spread_in_groups(I mask) {
  if constexpr (lane_count<I> == 4) {
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1);
  } else if constexpr (lane_count<I> == 8) {
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2, 5, 4, 7, 6);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1, 6, 7, 4, 5);
  } else {
    static_assert(lane_count<I> == 16);
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  }
}

}  // namespace densecore::DENSECORE_ISA
