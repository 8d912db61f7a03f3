// Softmax, log-softmax and their gradients in a profile's arithmetic; arguments as in softmax/SoftMaxKernel.h.
#pragma once

#include "../softmax/SoftMaxKernel.h"

namespace densecore::variant {

void softmax_rows(const Profile& profile, const float* x, int64_t rows, int64_t n, float* y);
void log_softmax_rows(const Profile& profile, const float* x, int64_t rows, int64_t n, float* y);
void softmax_rows_backward(const Profile& profile, const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input);
void log_softmax_rows_backward(const Profile& profile, const float* grad, const float* output, int64_t rows, int64_t n,
                               float* grad_input);

void softmax_columns(const Profile& profile, const float* x, SoftmaxShape shape, float* y);
void log_softmax_columns(const Profile& profile, const float* x, SoftmaxShape shape, float* y);
void softmax_columns_backward(const Profile& profile, const float* grad, const float* output, SoftmaxShape shape, float* grad_input);
void log_softmax_columns_backward(const Profile& profile, const float* grad, const float* output, SoftmaxShape shape,
                                  float* grad_input);

}  // namespace densecore::variant
