// maximum, minimum, fmax, fmin and the clamps. NaN and the order of -0 and +0 are what an implementation can choose; the reference's vector
// and scalar code choose differently.
#pragma once

#include "../dispatch.h"
#include "../profile.h"
#include "loop2d.h"

namespace densecore {

using MinMaxFn = void(const Loop2d& loop, const Profile& profile);
// (output, self, other)
DENSECORE_KERNEL(maximum_f32, MinMaxFn);
DENSECORE_KERNEL(maximum_f64, MinMaxFn);
DENSECORE_KERNEL(minimum_f32, MinMaxFn);
DENSECORE_KERNEL(minimum_f64, MinMaxFn);
DENSECORE_KERNEL(fmax_f32, MinMaxFn);
DENSECORE_KERNEL(fmax_f64, MinMaxFn);
DENSECORE_KERNEL(fmin_f32, MinMaxFn);
DENSECORE_KERNEL(fmin_f64, MinMaxFn);
// (output, self, bound)
DENSECORE_KERNEL(clamp_min_f32, MinMaxFn);
DENSECORE_KERNEL(clamp_min_f64, MinMaxFn);
DENSECORE_KERNEL(clamp_max_f32, MinMaxFn);
DENSECORE_KERNEL(clamp_max_f64, MinMaxFn);
// (output, self, lower, upper)
DENSECORE_KERNEL(clamp_f32, MinMaxFn);
DENSECORE_KERNEL(clamp_f64, MinMaxFn);

// (output, self), with bounds that are no NaN
using ClampF32Fn = void(const Loop2d& loop, const Profile& profile, float lower, float upper);
using ClampF64Fn = void(const Loop2d& loop, const Profile& profile, double lower, double upper);
DENSECORE_KERNEL(clamp_scalar_f32, ClampF32Fn);
DENSECORE_KERNEL(clamp_scalar_f64, ClampF64Fn);
using BoundF32Fn = void(const Loop2d& loop, const Profile& profile, float bound);
using BoundF64Fn = void(const Loop2d& loop, const Profile& profile, double bound);
DENSECORE_KERNEL(clamp_min_scalar_f32, BoundF32Fn);
DENSECORE_KERNEL(clamp_min_scalar_f64, BoundF64Fn);
DENSECORE_KERNEL(clamp_max_scalar_f32, BoundF32Fn);
DENSECORE_KERNEL(clamp_max_scalar_f64, BoundF64Fn);

}  // namespace densecore
