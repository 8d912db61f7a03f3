// Activations and their derivatives, float32. Operands in the order of the ATen op, output first.
#pragma once

#include "../dispatch.h"
#include "../profile.h"
#include "loop2d.h"
#include "unary.h"

namespace densecore {

// (output, input)
DENSECORE_KERNEL(gelu_erf_f32, UnaryFn);
DENSECORE_KERNEL(gelu_tanh_f32, UnaryFn);
DENSECORE_KERNEL(mish_f32, UnaryFn);
DENSECORE_KERNEL(silu_f32, UnaryFn);

// (grad_input, grad_output, input)
DENSECORE_KERNEL(gelu_erf_backward_f32, UnaryFn);
DENSECORE_KERNEL(gelu_tanh_backward_f32, UnaryFn);
DENSECORE_KERNEL(mish_backward_f32, UnaryFn);
DENSECORE_KERNEL(silu_backward_f32, UnaryFn);

// (grad_input, grad_output, output)
DENSECORE_KERNEL(tanh_backward_f32, UnaryFn);

// (output, a, b): a * sigmoid(b).
DENSECORE_KERNEL(glu_f32, UnaryFn);

// min(0, x) - log1p(buffer) with buffer = exp(-|x|). Contiguous.
using LogSigmoidFn = void(const float* input, float* output, float* buffer, int64_t n);
DENSECORE_KERNEL(log_sigmoid_f32, LogSigmoidFn);

// log1p(exp(beta x)) / beta, x itself where beta x > threshold. (output, input) and (grad_input, grad_output, input).
using SoftplusFn = void(const Loop2d& loop, const Profile& profile, float beta, float threshold);
DENSECORE_KERNEL(softplus_f32, SoftplusFn);
DENSECORE_KERNEL(softplus_backward_f32, SoftplusFn);

// positive * x above zero, negative * expm1(input_scale * x) below.
struct EluScales {
  float negative, positive, input;
};
using EluFn = void(const Loop2d& loop, const Profile& profile, EluScales scales);
// (output, input); (grad_input, grad_output, input); (grad_input, grad_output, output)
DENSECORE_KERNEL(elu_f32, EluFn);
DENSECORE_KERNEL(elu_backward_f32, EluFn);
DENSECORE_KERNEL(elu_backward_from_output_f32, EluFn);

// x moved towards zero by lambda, zero below it. (output, input)
using ShrinkFn = void(const Loop2d& loop, const Profile& profile, float lambda);
DENSECORE_KERNEL(softshrink_f32, ShrinkFn);
// The gradient where |x| > lambda: softshrink's and hardshrink's. (grad_input, grad_output, input)
DENSECORE_KERNEL(shrink_backward_f32, ShrinkFn);
// The gradient inside (low, high). (grad_input, grad_output, input)
using HardtanhBackwardFn = void(const Loop2d& loop, const Profile& profile, float low, float high);
DENSECORE_KERNEL(hardtanh_backward_f32, HardtanhBackwardFn);
// (grad_input, grad_output, input)
DENSECORE_KERNEL(hardswish_backward_f32, UnaryFn);

// log(x / (1 - x)); x is clamped to [low, high] first if low >= 0.
using LogitFn = void(const Loop2d& loop, const Profile& profile, float low, float high);
DENSECORE_KERNEL(logit_f32, LogitFn);

}  // namespace densecore
