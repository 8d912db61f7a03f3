// Layer normalization over the last n elements of m rows (ATen/native/cpu/layer_norm_kernel.cpp).
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// y = (x - mean) * rstd * gamma + beta; gamma and beta may be null. mean and rstd hold m values.
using LayerNormFn = void(const float* x, const float* gamma, const float* beta, int64_t m, int64_t n, float eps, float* y,
                         float* mean, float* rstd);
DENSECORE_KERNEL(layer_norm, LayerNormFn);

// gamma, dx, dgamma and dbeta may be null. dgamma and dbeta sum over rows within the profile's chunks, then over its threads.
using LayerNormBackwardFn = void(const Profile& profile, const float* dy, const float* x, const float* mean, const float* rstd,
                                 const float* gamma, int64_t m, int64_t n, float* dx, float* dgamma, float* dbeta);
DENSECORE_KERNEL(layer_norm_backward, LayerNormBackwardFn);

}  // namespace densecore
