// arange of floats (ATen/native/cpu/RangeFactoriesKernel.cpp).
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

// y[i] = start + step * (index + i) for i in [0, n): one chunk of the reference's threads, which begins at element `index`.
using ArangeF32Fn = void(double start, double step, int64_t index, float* y, int64_t n);
DENSECORE_KERNEL(arange_f32, ArangeF32Fn);

}  // namespace densecore
