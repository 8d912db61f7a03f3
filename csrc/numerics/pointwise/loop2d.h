// What at::TensorIterator hands to a loop: the operands' pointers (outputs first) and their strides in bytes, for the inner
// dimension and then, as many again, for the outer one.
#pragma once

#include <cstdint>

namespace densecore {

struct Loop2d {
  char* const* data;
  const int64_t* strides;
  int64_t inner;
  int64_t outer;
};

}  // namespace densecore
