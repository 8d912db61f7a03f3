// ATen's UnaryOps.cpp: functions of one operand. float32, and integer and bool inputs that become float32.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/acos_ops.h>
#include <ATen/ops/acosh_ops.h>
#include <ATen/ops/asin_ops.h>
#include <ATen/ops/asinh_ops.h>
#include <ATen/ops/atan_ops.h>
#include <ATen/ops/atanh_ops.h>
#include <ATen/ops/cos_ops.h>
#include <ATen/ops/cosh_ops.h>
#include <ATen/ops/erf_ops.h>
#include <ATen/ops/erfc_ops.h>
#include <ATen/ops/exp2_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expm1_ops.h>
#include <ATen/ops/log10_ops.h>
#include <ATen/ops/log1p_ops.h>
#include <ATen/ops/log2_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/logit_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/sin_ops.h>
#include <ATen/ops/sinc_ops.h>
#include <ATen/ops/sinh_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/tan_ops.h>
#include <ATen/ops/tanh_ops.h>

#include "aten/Loops.h"
#include "aten/float_operands.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/pointwise/activation.h"
#include "numerics/pointwise/unary.h"

namespace densecore {
namespace {

void run(at::TensorIterator& iter, const Dispatched<UnaryFn>& kernel, int64_t grain) {
  const Profile& profile = current_profile();
  for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile); }, grain);
}

template <class Op>
at::Tensor unary(const at::Tensor& self) {
  if (!becomes_float(self)) return host::call<typename Op::Functional>(self);
  at::Tensor out;
  auto iter = at::TensorIterator::unary_op(out, as_float(self));
  run(iter, Op::kernel, Op::grain);
  return iter.output();
}

template <class Op>
at::Tensor& unary_(at::Tensor& self) {
  if (self.scalar_type() != at::kFloat) return host::call<typename Op::InPlace>(self);
  auto iter = at::TensorIterator::unary_op(self, self);
  run(iter, Op::kernel, Op::grain);
  return self;
}

template <class Op>
at::Tensor& unary_out(const at::Tensor& self, at::Tensor& out) {
  if (!becomes_float(self)) return host::call<typename Op::Out>(self, out);
  if (out.scalar_type() != at::kFloat) {
    if (!at::canCast(at::kFloat, out.scalar_type())) host::error<typename Op::Out>(self, out);
    return copy_result(unary<Op>(self), out);
  }
  auto iter = at::TensorIterator::unary_op(out, as_float(self));
  run(iter, Op::kernel, Op::grain);
  return out;
}

#define DENSECORE_UNARY_OP(name, grain_size)         \
  struct name##_traits {                             \
    using Functional = at::_ops::name;               \
    using InPlace = at::_ops::name##_;               \
    using Out = at::_ops::name##_out;                \
    static constexpr auto& kernel = name##_f32;      \
    static constexpr int64_t grain = grain_size;     \
  };                                                 \
  DENSECORE_OP("aten::" #name, unary<name##_traits>);  \
  DENSECORE_OP("aten::" #name "_", unary_<name##_traits>); \
  DENSECORE_OP("aten::" #name ".out", unary_out<name##_traits>)

constexpr int64_t kVmlGrain = 2048;

DENSECORE_UNARY_OP(acos, kVmlGrain);
DENSECORE_UNARY_OP(acosh, kGrainSize);
DENSECORE_UNARY_OP(asin, kVmlGrain);
DENSECORE_UNARY_OP(asinh, kGrainSize);
DENSECORE_UNARY_OP(atan, kVmlGrain);
DENSECORE_UNARY_OP(atanh, kGrainSize);
DENSECORE_UNARY_OP(cos, kVmlGrain);
DENSECORE_UNARY_OP(cosh, kGrainSize);
DENSECORE_UNARY_OP(erf, kVmlGrain);
DENSECORE_UNARY_OP(erfc, kVmlGrain);
DENSECORE_UNARY_OP(exp, kVmlGrain);
DENSECORE_UNARY_OP(exp2, kGrainSize);
DENSECORE_UNARY_OP(expm1, kVmlGrain);
DENSECORE_UNARY_OP(log, kVmlGrain);
DENSECORE_UNARY_OP(log10, kVmlGrain);
DENSECORE_UNARY_OP(log1p, kVmlGrain);
DENSECORE_UNARY_OP(log2, kVmlGrain);
DENSECORE_UNARY_OP(sigmoid, kGrainSize);
DENSECORE_UNARY_OP(sin, kVmlGrain);
DENSECORE_UNARY_OP(sinc, kGrainSize);
DENSECORE_UNARY_OP(sinh, kGrainSize);
DENSECORE_UNARY_OP(sqrt, kVmlGrain);
DENSECORE_UNARY_OP(tan, kVmlGrain);
DENSECORE_UNARY_OP(tanh, kVmlGrain);

// ---- logit -------------------------------------------------------------------------------------------------------------------

void run_logit(at::TensorIterator& iter, std::optional<double> eps) {
  const Profile& profile = current_profile();
  const float low = static_cast<float>(eps.value_or(-1.0));
  for_each(iter, profile, [&](const Loop2d& loop) { logit_f32(loop, profile, low, 1.0f - low); });
}

at::Tensor logit(const at::Tensor& self, std::optional<double> eps) {
  if (!becomes_float(self)) return host::call<at::_ops::logit>(self, eps);
  at::Tensor out;
  auto iter = at::TensorIterator::unary_op(out, as_float(self));
  run_logit(iter, eps);
  return iter.output();
}
DENSECORE_OP("aten::logit", logit);

at::Tensor& logit_(at::Tensor& self, std::optional<double> eps) {
  if (self.scalar_type() != at::kFloat) return host::call<at::_ops::logit_>(self, eps);
  auto iter = at::TensorIterator::unary_op(self, self);
  run_logit(iter, eps);
  return self;
}
DENSECORE_OP("aten::logit_", logit_);

at::Tensor& logit_out(const at::Tensor& self, std::optional<double> eps, at::Tensor& out) {
  if (!becomes_float(self) || out.scalar_type() != at::kFloat) return host::call<at::_ops::logit_out>(self, eps, out);
  auto iter = at::TensorIterator::unary_op(out, as_float(self));
  run_logit(iter, eps);
  return out;
}
DENSECORE_OP("aten::logit.out", logit_out);

}  // namespace
}  // namespace densecore
