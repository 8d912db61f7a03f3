// Layer normalization in a profile's arithmetic; arguments as in norm/layer_norm_kernel.h.
#pragma once

#include <cstdint>

#include "../profile.h"

namespace densecore::variant {

void layer_norm(const Profile& profile, const float* x, const float* gamma, const float* beta, int64_t m, int64_t n, float eps, float* y,
                float* mean, float* rstd);

}  // namespace densecore::variant
