// clamp and the ops that torch defines by it (ATen/native/TensorCompare.cpp, Activation.cpp): floats by our loops, since hosts order the two
// zeros differently.
#include <ATen/core/Tensor.h>
#include <ATen/ops/clamp_max_ops.h>
#include <ATen/ops/clamp_min_ops.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/hardtanh_ops.h>
#include <ATen/ops/relu_ops.h>

#include <cmath>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/pointwise_operands.h"
#include "numerics/pointwise/min_max.h"

namespace densecore {
namespace {

using Bound = std::optional<at::Scalar>;

bool is_nan(const Bound& bound) { return bound && bound->isFloatingPoint() && std::isnan(bound->toDouble()); }

// The result's dtype: that of self, unless an integer self meets a floating bound.
at::ScalarType clamp_type(const at::Tensor& self, const Bound& lower, const Bound& upper) {
  at::native::ResultTypeState state = at::native::update_result_type_state(self, {});
  if (lower) state = at::native::update_result_type_state(*lower, state);
  if (upper) state = at::native::update_result_type_state(*upper, state);
  return at::native::result_type(state);
}

// Floats with bounds that are real numbers; NaN bounds (a fill) and errors are the host's.
bool is_claimed(at::ScalarType type, const Bound& lower, const Bound& upper) {
  return is_float_or_double(type) && (lower || upper) && !is_nan(lower) && !is_nan(upper);
}

template <class T>
void clamp_loop(const Loop2d& loop, const Profile& profile, const Bound& lower, const Bound& upper) {
  constexpr bool single = std::is_same_v<T, float>;
  const auto& both = [&]() -> const auto& { if constexpr (single) return clamp_scalar_f32; else return clamp_scalar_f64; }();
  const auto& below = [&]() -> const auto& { if constexpr (single) return clamp_min_scalar_f32; else return clamp_min_scalar_f64; }();
  const auto& above = [&]() -> const auto& { if constexpr (single) return clamp_max_scalar_f32; else return clamp_max_scalar_f64; }();
  if (lower && upper) return both(loop, profile, lower->to<T>(), upper->to<T>());
  if (lower) return below(loop, profile, lower->to<T>());
  above(loop, profile, upper->to<T>());
}

at::Tensor clamp_numbers(at::ScalarType type, const at::Tensor& self, const Bound& lower, const Bound& upper, const at::Tensor& out = {}) {
  auto iter = pointwise_iterator(out, {as_type(self, type)});
  const Profile& profile = current_profile();
  for_each(iter, profile, [&](const Loop2d& loop) {
    type == at::kFloat ? clamp_loop<float>(loop, profile, lower, upper) : clamp_loop<double>(loop, profile, lower, upper);
  });
  return iter.output();
}

// Functional, in-place and out form of an op whose arguments after self are `Args`, which bounds() turns into bounds. promotes: a
// floating bound makes an integer self floating (clamp); otherwise the bound becomes an integer (hardtanh), which is the host's.
template <class Functional, class InPlace, class Out, auto bounds, bool promotes, class... Args>
struct ClampNumbers {
  static bool claims(const at::Tensor& self, at::ScalarType type, const Bound& lower, const Bound& upper) {
    return is_claimed(type, lower, upper) && (promotes || type == self.scalar_type());
  }
  static at::Tensor functional(const at::Tensor& self, Args... args) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!claims(self, type, lower, upper)) return host::call<Functional>(self, args...);
    return clamp_numbers(type, self, lower, upper);
  }
  static at::Tensor& in_place(at::Tensor& self, Args... args) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!claims(self, type, lower, upper) || type != self.scalar_type()) return host::call<InPlace>(self, args...);
    clamp_numbers(type, self, lower, upper, self);
    return self;
  }
  static at::Tensor& out(const at::Tensor& self, Args... args, at::Tensor& out) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!claims(self, type, lower, upper)) return host::call<Out>(self, args..., out);
    const auto compute = [&, &low = lower, &high = upper](const at::Tensor& target) { return clamp_numbers(type, self, low, high, target); };
    return compute_into(out, type, compute, [&] { host::error<Out>(self, args..., out); });
  }
};

using Bounds = std::pair<Bound, Bound>;
Bounds both(const Bound& lower, const Bound& upper) { return {lower, upper}; }
Bounds lower_only(const at::Scalar& lower) { return {lower, std::nullopt}; }
Bounds upper_only(const at::Scalar& upper) { return {std::nullopt, upper}; }
Bounds zero() { return {at::Scalar(0), std::nullopt}; }
Bounds two_numbers(const at::Scalar& lower, const at::Scalar& upper) { return {lower, upper}; }

using Clamp = ClampNumbers<at::_ops::clamp, at::_ops::clamp_, at::_ops::clamp_out, &both, true, const Bound&, const Bound&>;
DENSECORE_OP("aten::clamp", Clamp::functional);
DENSECORE_OP("aten::clamp_", Clamp::in_place);
DENSECORE_OP("aten::clamp.out", Clamp::out);
using ClampMin = ClampNumbers<at::_ops::clamp_min, at::_ops::clamp_min_, at::_ops::clamp_min_out, &lower_only, true, const at::Scalar&>;
DENSECORE_OP("aten::clamp_min", ClampMin::functional);
DENSECORE_OP("aten::clamp_min_", ClampMin::in_place);
DENSECORE_OP("aten::clamp_min.out", ClampMin::out);
using ClampMax = ClampNumbers<at::_ops::clamp_max, at::_ops::clamp_max_, at::_ops::clamp_max_out, &upper_only, true, const at::Scalar&>;
DENSECORE_OP("aten::clamp_max", ClampMax::functional);
DENSECORE_OP("aten::clamp_max_", ClampMax::in_place);
DENSECORE_OP("aten::clamp_max.out", ClampMax::out);
using Relu = ClampNumbers<at::_ops::relu, at::_ops::relu_, at::_ops::relu_out, &zero, true>;
DENSECORE_OP("aten::relu", Relu::functional);
DENSECORE_OP("aten::relu_", Relu::in_place);
using Hardtanh = ClampNumbers<at::_ops::hardtanh, at::_ops::hardtanh_, at::_ops::hardtanh_out, &two_numbers, false, const at::Scalar&, const at::Scalar&>;
DENSECORE_OP("aten::hardtanh", Hardtanh::functional);
DENSECORE_OP("aten::hardtanh_", Hardtanh::in_place);
DENSECORE_OP("aten::hardtanh.out", Hardtanh::out);

// ---- tensors as bounds ---------------------------------------------------------------------------------------------------------

using TensorBound = std::optional<at::Tensor>;

at::ScalarType clamp_type(const at::Tensor& self, const TensorBound& lower, const TensorBound& upper) {
  if (lower && upper) return promoted_type({self, *lower, *upper});
  return promoted_type({self, lower ? *lower : upper ? *upper : self});
}

at::Tensor clamp_tensors(at::ScalarType type, const at::Tensor& self, const TensorBound& lower, const TensorBound& upper,
                         const at::Tensor& out = {}) {
  const at::Tensor input = as_type(self, type);
  auto iter = lower && upper ? pointwise_iterator(out, {input, as_type(*lower, type), as_type(*upper, type)})
                             : pointwise_iterator(out, {input, as_type(lower ? *lower : *upper, type)});
  const Profile& profile = current_profile();
  const bool single = type == at::kFloat;
  const auto& kernel = lower && upper ? (single ? clamp_f32 : clamp_f64)
                       : lower        ? (single ? clamp_min_f32 : clamp_min_f64)
                                      : (single ? clamp_max_f32 : clamp_max_f64);
  for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile); });
  return iter.output();
}

template <class Functional, class InPlace, class Out, auto bounds, class... Args>
struct ClampTensors {
  static at::Tensor functional(const at::Tensor& self, Args... args) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!is_float_or_double(type) || !(lower || upper)) return host::call<Functional>(self, args...);
    return clamp_tensors(type, self, lower, upper);
  }
  static at::Tensor& in_place(at::Tensor& self, Args... args) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!is_float_or_double(type) || !(lower || upper) || type != self.scalar_type()) return host::call<InPlace>(self, args...);
    clamp_tensors(type, self, lower, upper, self);
    return self;
  }
  static at::Tensor& out(const at::Tensor& self, Args... args, at::Tensor& out) {
    const auto [lower, upper] = bounds(args...);
    const auto type = clamp_type(self, lower, upper);
    if (!is_float_or_double(type) || !(lower || upper)) return host::call<Out>(self, args..., out);
    const auto compute = [&, &low = lower, &high = upper](const at::Tensor& target) { return clamp_tensors(type, self, low, high, target); };
    return compute_into(out, type, compute, [&] { host::error<Out>(self, args..., out); });
  }
};

using TensorBounds = std::pair<TensorBound, TensorBound>;
TensorBounds both_tensors(const TensorBound& lower, const TensorBound& upper) { return {lower, upper}; }
TensorBounds lower_tensor(const at::Tensor& lower) { return {lower, std::nullopt}; }
TensorBounds upper_tensor(const at::Tensor& upper) { return {std::nullopt, upper}; }

using ClampByTensors = ClampTensors<at::_ops::clamp_Tensor, at::_ops::clamp__Tensor, at::_ops::clamp_Tensor_out, &both_tensors,
                                    const TensorBound&, const TensorBound&>;
DENSECORE_OP("aten::clamp.Tensor", ClampByTensors::functional);
DENSECORE_OP("aten::clamp_.Tensor", ClampByTensors::in_place);
DENSECORE_OP("aten::clamp.Tensor_out", ClampByTensors::out);
using ClampMinByTensor = ClampTensors<at::_ops::clamp_min_Tensor, at::_ops::clamp_min__Tensor, at::_ops::clamp_min_Tensor_out,
                                      &lower_tensor, const at::Tensor&>;
DENSECORE_OP("aten::clamp_min.Tensor", ClampMinByTensor::functional);
DENSECORE_OP("aten::clamp_min_.Tensor", ClampMinByTensor::in_place);
DENSECORE_OP("aten::clamp_min.Tensor_out", ClampMinByTensor::out);
using ClampMaxByTensor = ClampTensors<at::_ops::clamp_max_Tensor, at::_ops::clamp_max__Tensor, at::_ops::clamp_max_Tensor_out,
                                      &upper_tensor, const at::Tensor&>;
DENSECORE_OP("aten::clamp_max.Tensor", ClampMaxByTensor::functional);
DENSECORE_OP("aten::clamp_max_.Tensor", ClampMaxByTensor::in_place);
DENSECORE_OP("aten::clamp_max.Tensor_out", ClampMaxByTensor::out);

}  // namespace
}  // namespace densecore
