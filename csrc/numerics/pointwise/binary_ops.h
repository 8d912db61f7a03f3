// Binary and ternary arithmetic in which the reference fuses a multiply-add. Operands in the order of the ATen op, output first.
#pragma once

#include "../dispatch.h"
#include "../profile.h"
#include "loop2d.h"

namespace densecore {

using ScaledF32Fn = void(const Loop2d& loop, const Profile& profile, float scale);
using ScaledF64Fn = void(const Loop2d& loop, const Profile& profile, double scale);
using PlainFn = void(const Loop2d& loop, const Profile& profile);

// self + scale * other. (output, self, other)
DENSECORE_KERNEL(add_f32, ScaledF32Fn);
DENSECORE_KERNEL(add_f64, ScaledF64Fn);
// self + scale * tensor1 * tensor2. (output, self, tensor1, tensor2)
DENSECORE_KERNEL(addcmul_f32, ScaledF32Fn);
DENSECORE_KERNEL(addcmul_f64, ScaledF64Fn);
// self + scale * tensor1 / tensor2. (output, self, tensor1, tensor2)
DENSECORE_KERNEL(addcdiv_f32, ScaledF32Fn);
DENSECORE_KERNEL(addcdiv_f64, ScaledF64Fn);
// self + scale * (end - self). (output, self, end)
DENSECORE_KERNEL(lerp_scalar_f32, ScaledF32Fn);
DENSECORE_KERNEL(lerp_scalar_f64, ScaledF64Fn);
// self + weight * (end - self). (output, self, end, weight)
DENSECORE_KERNEL(lerp_tensor_f32, PlainFn);
DENSECORE_KERNEL(lerp_tensor_f64, PlainFn);

}  // namespace densecore
