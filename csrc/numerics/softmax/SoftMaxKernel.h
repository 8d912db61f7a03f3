// Softmax, log-softmax and their gradients (ATen/native/cpu/SoftMaxKernel.cpp, LogSoftmaxKernelImpl.h).
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// Contiguous data of shape (outer, dim, inner), reduced over dim.
struct SoftmaxShape {
  int64_t outer;
  int64_t dim;
  int64_t inner;
};

// Over the last dimension: `rows` rows of n elements. y may be x.
using SoftmaxRowsFn = void(const float* x, int64_t rows, int64_t n, float* y);
DENSECORE_KERNEL(softmax_rows, SoftmaxRowsFn);
// Rows whose elements are all -inf give zeros (aten::_safe_softmax).
DENSECORE_KERNEL(safe_softmax_rows, SoftmaxRowsFn);
DENSECORE_KERNEL(log_softmax_rows, SoftmaxRowsFn);

using SoftmaxRowsBackwardFn = void(const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input);
DENSECORE_KERNEL(softmax_rows_backward, SoftmaxRowsBackwardFn);
DENSECORE_KERNEL(log_softmax_rows_backward, SoftmaxRowsBackwardFn);

// Over another dimension, also when the inner size is 1: columns that do not fill a vector of 4 take libm's expf. Which columns
// those are depends on the profile's chunks (softmax) or on the inner size alone (the others).
using SoftmaxColumnsFn = void(const Profile& profile, const float* x, SoftmaxShape shape, float* y);
DENSECORE_KERNEL(softmax_columns, SoftmaxColumnsFn);
DENSECORE_KERNEL(log_softmax_columns, SoftmaxColumnsFn);

using SoftmaxColumnsBackwardFn = void(const float* grad, const float* output, SoftmaxShape shape, float* grad_input);
DENSECORE_KERNEL(softmax_columns_backward, SoftmaxColumnsBackwardFn);
DENSECORE_KERNEL(log_softmax_columns_backward, SoftmaxColumnsBackwardFn);

}  // namespace densecore
