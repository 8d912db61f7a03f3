// beta * self + alpha * vec1 * vec2, elementwise (addr_kernel in ATen/native/cpu/LinearAlgebraKernel.cpp).
#pragma once

#include "../dispatch.h"
#include "../pointwise/loop2d.h"
#include "../profile.h"

namespace densecore {

// Operands: result, self, vec1, vec2. self is not used if beta is 0.
using AddrFn = void(const Loop2d& loop, const Profile& profile, float beta, float alpha);
DENSECORE_KERNEL(addr_f32, AddrFn);

}  // namespace densecore
