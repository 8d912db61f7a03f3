// pow, float32.
#pragma once

#include "../dispatch.h"
#include "../profile.h"
#include "loop2d.h"
#include "unary.h"

namespace densecore {

// (output, base, exponent)
DENSECORE_KERNEL(pow_f32, UnaryFn);
// One exponent for all, of which ATen computes 0.5, 2, 3, -0.5, -1 and -2 by multiplication, square root and division. (output, base)
using PowScalarFn = void(const Loop2d& loop, const Profile& profile, double exponent);
DENSECORE_KERNEL(pow_scalar_f32, PowScalarFn);

}  // namespace densecore
