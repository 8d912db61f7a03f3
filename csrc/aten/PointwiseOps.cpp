// addcmul and addcdiv (ATen/native/PointwiseOps.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/pointwise_operands.h"
#include "numerics/pointwise/binary_ops.h"

namespace densecore {
namespace {

template <auto& f32, auto& f64>
at::Tensor ternary(at::ScalarType type, const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2,
                   const at::Scalar& value, const at::Tensor& out = {}) {
  auto iter = pointwise_iterator(out, {as_type(self, type), as_type(tensor1, type), as_type(tensor2, type)});
  const Profile& profile = current_profile();
  if (type == at::kFloat) {
    for_each(iter, profile, [&, scale = value.to<float>()](const Loop2d& loop) { f32(loop, profile, scale); });
  } else {
    for_each(iter, profile, [&, scale = value.to<double>()](const Loop2d& loop) { f64(loop, profile, scale); });
  }
  return iter.output();
}

template <auto& f32, auto& f64, class Functional, class InPlace, class Out>
struct Ternary {
  static at::Tensor functional(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
    const auto type = promoted_type({self, tensor1, tensor2});
    if (!is_claimed(type, tensor1, tensor2)) return host::call<Functional>(self, tensor1, tensor2, value);
    return ternary<f32, f64>(type, self, tensor1, tensor2, value);
  }
  static at::Tensor& in_place(at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value) {
    const auto type = promoted_type({self, tensor1, tensor2});
    if (!is_claimed(type, tensor1, tensor2)) return host::call<InPlace>(self, tensor1, tensor2, value);
    return compute_in_place(self, type, [&](const at::Tensor& target) { return ternary<f32, f64>(type, self, tensor1, tensor2, value, target); },
                        [&] { host::error<InPlace>(self, tensor1, tensor2, value); });
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& tensor1, const at::Tensor& tensor2, const at::Scalar& value,
                         at::Tensor& out) {
    const auto type = promoted_type({self, tensor1, tensor2});
    if (!is_claimed(type, tensor1, tensor2)) return host::call<Out>(self, tensor1, tensor2, value, out);
    return compute_into(out, type, [&](const at::Tensor& target) { return ternary<f32, f64>(type, self, tensor1, tensor2, value, target); },
                        [&] { host::error<Out>(self, tensor1, tensor2, value, out); });
  }

 private:
  // addcdiv of two integer tensors is an error of torch's, which the host raises.
  static bool is_claimed(at::ScalarType type, const at::Tensor& tensor1, const at::Tensor& tensor2) {
    const bool integers = at::isIntegralType(tensor1.scalar_type(), true) && at::isIntegralType(tensor2.scalar_type(), true);
    return is_float_or_double(type) && !integers;
  }
};

using Addcmul = Ternary<addcmul_f32, addcmul_f64, at::_ops::addcmul, at::_ops::addcmul_, at::_ops::addcmul_out>;
DENSECORE_OP("aten::addcmul", Addcmul::functional);
DENSECORE_OP("aten::addcmul_", Addcmul::in_place);
DENSECORE_OP("aten::addcmul.out", Addcmul::out);
using Addcdiv = Ternary<addcdiv_f32, addcdiv_f64, at::_ops::addcdiv, at::_ops::addcdiv_, at::_ops::addcdiv_out>;
DENSECORE_OP("aten::addcdiv", Addcdiv::functional);
DENSECORE_OP("aten::addcdiv_", Addcdiv::in_place);
DENSECORE_OP("aten::addcdiv.out", Addcdiv::out);

}  // namespace
}  // namespace densecore
