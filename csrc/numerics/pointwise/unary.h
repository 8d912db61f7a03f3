// Functions of one float32 operand. Operands: output, input.
#pragma once

#include "../dispatch.h"
#include "../profile.h"
#include "loop2d.h"

namespace densecore {

using UnaryFn = void(const Loop2d& loop, const Profile& profile);

// Vector functions throughout, the tail padded with zeros (ATen's vml.h).
DENSECORE_KERNEL(acos_f32, UnaryFn);
DENSECORE_KERNEL(asin_f32, UnaryFn);
DENSECORE_KERNEL(atan_f32, UnaryFn);
DENSECORE_KERNEL(cos_f32, UnaryFn);
DENSECORE_KERNEL(erf_f32, UnaryFn);
DENSECORE_KERNEL(erfc_f32, UnaryFn);
DENSECORE_KERNEL(exp_f32, UnaryFn);
DENSECORE_KERNEL(expm1_f32, UnaryFn);
DENSECORE_KERNEL(log_f32, UnaryFn);
DENSECORE_KERNEL(log10_f32, UnaryFn);
DENSECORE_KERNEL(log1p_f32, UnaryFn);
DENSECORE_KERNEL(log2_f32, UnaryFn);
DENSECORE_KERNEL(sin_f32, UnaryFn);
DENSECORE_KERNEL(sqrt_f32, UnaryFn);
DENSECORE_KERNEL(tan_f32, UnaryFn);
DENSECORE_KERNEL(tanh_f32, UnaryFn);

// Vector functions in whole pairs of the reference's vectors, libm in the tail and for strided operands (ATen's cpu_kernel_vec).
DENSECORE_KERNEL(atanh_f32, UnaryFn);
DENSECORE_KERNEL(cosh_f32, UnaryFn);
DENSECORE_KERNEL(exp2_f32, UnaryFn);
DENSECORE_KERNEL(sigmoid_f32, UnaryFn);
DENSECORE_KERNEL(sinh_f32, UnaryFn);

// libm for every element (ATen's cpu_kernel).
DENSECORE_KERNEL(acosh_f32, UnaryFn);
DENSECORE_KERNEL(asinh_f32, UnaryFn);
DENSECORE_KERNEL(sinc_f32, UnaryFn);

}  // namespace densecore
