// Terms of losses whose logarithms are the libm model's (ATen/native/Loss.cpp).
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

// out = (target - 1) * max(log(1 - x), -100) - target * max(log x, -100) over n elements; false if an x or target is not between 0 and 1.
using BinaryCrossEntropyFn = bool(const float* x, const float* target, int64_t n, float* out);
DENSECORE_KERNEL(binary_cross_entropy_terms, BinaryCrossEntropyFn);

}  // namespace densecore
