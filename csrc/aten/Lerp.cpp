// lerp with a number or a tensor as weight (ATen/native/Lerp.cpp); it takes operands of one dtype only.
#include <ATen/core/Tensor.h>
#include <ATen/ops/lerp_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/pointwise_operands.h"
#include "numerics/pointwise/binary_ops.h"

namespace densecore {
namespace {

bool is_claimed(const at::Tensor& self, const at::Tensor& end) {
  return is_float_or_double(self.scalar_type()) && end.scalar_type() == self.scalar_type();
}
bool is_claimed(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight) {
  return is_claimed(self, end) && weight.scalar_type() == self.scalar_type();
}

at::Tensor compute(const at::Tensor& self, const at::Tensor& end, const at::Scalar& weight, const at::Tensor& out = {}) {
  auto iter = pointwise_iterator(out, {self, end});
  const Profile& profile = current_profile();
  if (self.scalar_type() == at::kFloat) {
    for_each(iter, profile, [&, w = weight.to<float>()](const Loop2d& loop) { lerp_scalar_f32(loop, profile, w); });
  } else {
    for_each(iter, profile, [&, w = weight.to<double>()](const Loop2d& loop) { lerp_scalar_f64(loop, profile, w); });
  }
  return iter.output();
}

at::Tensor compute(const at::Tensor& self, const at::Tensor& end, const at::Tensor& weight, const at::Tensor& out = {}) {
  auto iter = pointwise_iterator(out, {self, end, weight});
  const Profile& profile = current_profile();
  const auto& kernel = self.scalar_type() == at::kFloat ? lerp_tensor_f32 : lerp_tensor_f64;
  for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile); });
  return iter.output();
}

template <class Weight, class Functional, class InPlace, class Out>
struct Lerp {
  static at::Tensor functional(const at::Tensor& self, const at::Tensor& end, const Weight& weight) {
    if (!is_claimed_for(self, end, weight)) return host::call<Functional>(self, end, weight);
    return compute(self, end, weight);
  }
  static at::Tensor& in_place(at::Tensor& self, const at::Tensor& end, const Weight& weight) {
    if (!is_claimed_for(self, end, weight)) return host::call<InPlace>(self, end, weight);
    compute(self, end, weight, self);
    return self;
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& end, const Weight& weight, at::Tensor& out) {
    if (!is_claimed_for(self, end, weight)) return host::call<Out>(self, end, weight, out);
    return compute_into(out, self.scalar_type(), [&](const at::Tensor& target) { return compute(self, end, weight, target); },
                        [&] { host::error<Out>(self, end, weight, out); });
  }

 private:
  static bool is_claimed_for(const at::Tensor& self, const at::Tensor& end, const Weight& weight) {
    if constexpr (std::is_same_v<Weight, at::Tensor>) {
      return is_claimed(self, end, weight);
    } else {
      return is_claimed(self, end) && !weight.isComplex();
    }
  }
};

using LerpScalar = Lerp<at::Scalar, at::_ops::lerp_Scalar, at::_ops::lerp__Scalar, at::_ops::lerp_Scalar_out>;
DENSECORE_OP("aten::lerp.Scalar", LerpScalar::functional);
DENSECORE_OP("aten::lerp_.Scalar", LerpScalar::in_place);
DENSECORE_OP("aten::lerp.Scalar_out", LerpScalar::out);
using LerpTensor = Lerp<at::Tensor, at::_ops::lerp_Tensor, at::_ops::lerp__Tensor, at::_ops::lerp_Tensor_out>;
DENSECORE_OP("aten::lerp.Tensor", LerpTensor::functional);
DENSECORE_OP("aten::lerp_.Tensor", LerpTensor::in_place);
DENSECORE_OP("aten::lerp.Tensor_out", LerpTensor::out);

}  // namespace
}  // namespace densecore
