// add, sub, rsub (ATen/native/BinaryOps.cpp): float32 and float64 by our loops, since the multiply-add with alpha is fused; integers by the
// host. maximum, minimum, fmax, fmin: floats by our loops, since hosts order the two zeros differently.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/fmax_ops.h>
#include <ATen/ops/fmin_ops.h>
#include <ATen/ops/maximum_ops.h>
#include <ATen/ops/minimum_ops.h>
#include <ATen/ops/rsub_ops.h>
#include <ATen/ops/sub_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/pointwise_operands.h"
#include "numerics/pointwise/binary_ops.h"
#include "numerics/pointwise/min_max.h"

namespace densecore {
namespace {

void add(const Loop2d& loop, const Profile& profile, float scale) { add_f32(loop, profile, scale); }
void add(const Loop2d& loop, const Profile& profile, double scale) { add_f64(loop, profile, scale); }

bool is_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

// self + scale * other in T, into `out` if it is defined.
template <class T>
at::Tensor add_as(const at::Tensor& self, const at::Tensor& other, T scale, const at::Tensor& out) {
  constexpr at::ScalarType type = c10::CppTypeToScalarType<T>::value;
  const Profile& profile = current_profile();
  if (is_number(other) && !is_number(self)) {
    auto iter = pointwise_iterator(out, {as_type(self, type)});
    const T value = other.item().to<T>();
    for_each(iter, profile, [&](const Loop2d& loop) {
      with_scalar_operand<2>(loop, value, [&](const Loop2d& whole) { add(whole, profile, scale); });
    });
    return iter.output();
  }
  auto iter = pointwise_iterator(out, {as_type(self, type), as_type(other, type)});
  for_each(iter, profile, [&](const Loop2d& loop) { add(loop, profile, scale); });
  return iter.output();
}

// sign * alpha as the factor of `other`.
at::Tensor add_scaled(at::ScalarType type, const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, int sign,
                      const at::Tensor& out = {}) {
  if (type == at::kFloat) return add_as<float>(self, other, static_cast<float>(sign) * alpha.to<float>(), out);
  return add_as<double>(self, other, sign * alpha.to<double>(), out);
}

// What torch refuses for floating operands: a bool or complex alpha, and subtraction of bool tensors.
bool is_refused(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, bool subtraction) {
  if (alpha.isBoolean() || alpha.isComplex()) return true;
  return subtraction && (self.scalar_type() == at::kBool || other.scalar_type() == at::kBool);
}

// Functional, in-place and out form of self + sign * alpha * other.
template <int sign, class Functional, class InPlace, class Out>
struct AddLike {
  static at::Tensor functional(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
    const auto type = promoted_type({self, other});
    if (!is_float_or_double(type)) return host::call<Functional>(self, other, alpha);
    if (is_refused(self, other, alpha, sign < 0)) host::error<Functional>(self, other, alpha);
    return add_scaled(type, self, other, alpha, sign);
  }
  static at::Tensor& in_place(at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
    const auto type = promoted_type({self, other});
    if (!is_float_or_double(type)) return host::call<InPlace>(self, other, alpha);
    if (is_refused(self, other, alpha, sign < 0)) host::error<InPlace>(self, other, alpha);
    return compute_in_place(self, type, [&](const at::Tensor& target) { return add_scaled(type, self, other, alpha, sign, target); },
                        [&] { host::error<InPlace>(self, other, alpha); });
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
    const auto type = promoted_type({self, other});
    if (!is_float_or_double(type)) return host::call<Out>(self, other, alpha, out);
    if (is_refused(self, other, alpha, sign < 0)) host::error<Out>(self, other, alpha, out);
    return compute_into(out, type, [&](const at::Tensor& target) { return add_scaled(type, self, other, alpha, sign, target); },
                        [&] { host::error<Out>(self, other, alpha, out); });
  }
};

using Add = AddLike<1, at::_ops::add_Tensor, at::_ops::add__Tensor, at::_ops::add_out>;
DENSECORE_OP("aten::add.Tensor", Add::functional);
DENSECORE_OP("aten::add_.Tensor", Add::in_place);
DENSECORE_OP("aten::add.out", Add::out);

using Sub = AddLike<-1, at::_ops::sub_Tensor, at::_ops::sub__Tensor, at::_ops::sub_out>;
DENSECORE_OP("aten::sub.Tensor", Sub::functional);
DENSECORE_OP("aten::sub_.Tensor", Sub::in_place);
DENSECORE_OP("aten::sub.out", Sub::out);

at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha) {
  const auto type = promoted_type({self, other});
  if (!is_float_or_double(type)) return host::call<at::_ops::rsub_Tensor>(self, other, alpha);
  if (is_refused(self, other, alpha, true)) host::error<at::_ops::rsub_Tensor>(self, other, alpha);
  return add_scaled(type, other, self, alpha, -1);
}
DENSECORE_OP("aten::rsub.Tensor", rsub);

// ---- maximum, minimum, fmax, fmin --------------------------------------------------------------------------------------------

template <auto& f32, auto& f64>
at::Tensor choose(at::ScalarType type, const at::Tensor& self, const at::Tensor& other, const at::Tensor& out = {}) {
  auto iter = pointwise_iterator(out, {as_type(self, type), as_type(other, type)});
  const Profile& profile = current_profile();
  for_each(iter, profile, [&](const Loop2d& loop) { type == at::kFloat ? f32(loop, profile) : f64(loop, profile); });
  return iter.output();
}

template <auto& f32, auto& f64, class Functional, class Out>
struct Choose {
  static at::Tensor functional(const at::Tensor& self, const at::Tensor& other) {
    const auto type = promoted_type({self, other});
    if (!is_float_or_double(type)) return host::call<Functional>(self, other);
    return choose<f32, f64>(type, self, other);
  }
  static at::Tensor& out(const at::Tensor& self, const at::Tensor& other, at::Tensor& out) {
    const auto type = promoted_type({self, other});
    if (!is_float_or_double(type)) return host::call<Out>(self, other, out);
    return compute_into(out, type, [&](const at::Tensor& target) { return choose<f32, f64>(type, self, other, target); },
                        [&] { host::error<Out>(self, other, out); });
  }
};

using Maximum = Choose<maximum_f32, maximum_f64, at::_ops::maximum, at::_ops::maximum_out>;
DENSECORE_OP("aten::maximum", Maximum::functional);
DENSECORE_OP("aten::maximum.out", Maximum::out);
using Minimum = Choose<minimum_f32, minimum_f64, at::_ops::minimum, at::_ops::minimum_out>;
DENSECORE_OP("aten::minimum", Minimum::functional);
DENSECORE_OP("aten::minimum.out", Minimum::out);
using Fmax = Choose<fmax_f32, fmax_f64, at::_ops::fmax, at::_ops::fmax_out>;
DENSECORE_OP("aten::fmax", Fmax::functional);
DENSECORE_OP("aten::fmax.out", Fmax::out);
using Fmin = Choose<fmin_f32, fmin_f64, at::_ops::fmin, at::_ops::fmin_out>;
DENSECORE_OP("aten::fmin", Fmin::functional);
DENSECORE_OP("aten::fmin.out", Fmin::out);

}  // namespace
}  // namespace densecore
