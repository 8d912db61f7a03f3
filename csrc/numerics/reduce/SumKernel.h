// The inner loops of aten::sum and aten::nansum (ATen/native/cpu/SumKernel.cpp).
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

// A 2-d loop of a reduction, as at::TensorIterator calls it: data = {output, input}, strides (bytes) = {output, input} of the inner
// dimension, then of the outer one; an output stride of 0 is a reduced dimension. Adds to the output, which holds the sum so far.
using ReduceLoopFn = void(char* const* data, const int64_t* strides, int64_t size0, int64_t size1);
DENSECORE_KERNEL(sum_loop, ReduceLoopFn);
DENSECORE_KERNEL(nansum_loop, ReduceLoopFn);

}  // namespace densecore
