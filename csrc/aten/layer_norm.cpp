// Bindings of layer normalization (ATen/native/layer_norm.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <tuple>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/norm/layer_norm_kernel.h"
#include "numerics/variant/layer_norm.h"

namespace densecore {
namespace {

using at::Tensor;
using ForwardOp = at::_ops::native_layer_norm;
using BackwardOp = at::_ops::native_layer_norm_backward;
using OptionalTensor = std::optional<Tensor>;

bool all_float(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors) {
    if (t->defined() && t->scalar_type() != at::kFloat) return false;
  }
  return true;
}

Tensor contiguous_or_undefined(const Tensor& t) { return t.defined() ? t.contiguous() : t; }
const float* data_or_null(const Tensor& t) { return t.defined() ? t.const_data_ptr<float>() : nullptr; }
float* mutable_data_or_null(const Tensor& t) { return t.defined() ? t.mutable_data_ptr<float>() : nullptr; }
Tensor contiguous_like(const Tensor& t) { return at::empty_like(t, at::MemoryFormat::Contiguous); }

// Shape of the statistics: the normalized dimensions have size 1.
at::DimVector statistics_shape(const Tensor& input, size_t normalized_dims) {
  at::DimVector shape(input.sizes());
  std::fill(shape.end() - normalized_dims, shape.end(), 1);
  return shape;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_forward(const Tensor& input, at::IntArrayRef normalized_shape,
                                                      const OptionalTensor& weight, const OptionalTensor& bias, double eps) {
  const Tensor gamma = contiguous_or_undefined(weight.value_or(Tensor())), beta = contiguous_or_undefined(bias.value_or(Tensor()));
  if (!all_float({&input, &gamma, &beta})) {
    return host::call<ForwardOp>(input, normalized_shape, weight, bias, eps);
  }
  const auto [m, n] = at::native::_check_layer_norm_inputs(input, normalized_shape, gamma, beta);
  const Tensor x = input.contiguous();
  Tensor y = contiguous_like(x);
  Tensor mean = at::empty(statistics_shape(input, normalized_shape.size()), x.options());
  Tensor rstd = at::empty_like(mean);
  const auto run = [&, rows = m, size = n](const auto& kernel) {
    kernel(x.const_data_ptr<float>(), data_or_null(gamma), data_or_null(beta), rows, size, static_cast<float>(eps),
           y.mutable_data_ptr<float>(), mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>());
  };
  const Profile& profile = current_profile();
  if (profile.needs_variant()) run([&](auto... arguments) { variant::layer_norm(profile, arguments...); });
  else run(layer_norm);
  return {y, mean, rstd};
}
DENSECORE_OP("aten::native_layer_norm", layer_norm_forward);

std::tuple<Tensor, Tensor, Tensor> layer_norm_gradients(const Tensor& grad_out, const Tensor& input, at::IntArrayRef normalized_shape,
                                                        const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
                                                        const OptionalTensor& bias, std::array<bool, 3> output_mask) {
  const Tensor gamma = contiguous_or_undefined(weight.value_or(Tensor())), beta = bias.value_or(Tensor());
  if (!all_float({&grad_out, &input, &mean, &rstd, &gamma, &beta})) {
    return host::call<BackwardOp>(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask);
  }
  const auto [m, n] = at::native::_check_layer_norm_inputs(input, normalized_shape, gamma, beta);
  const bool missing_parameter = (output_mask[1] && !gamma.defined()) || (output_mask[2] && !beta.defined());
  if (missing_parameter || grad_out.numel() != m * n || mean.numel() != m || rstd.numel() != m) {
    host::error<BackwardOp>(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask);
  }
  const Tensor dy = grad_out.contiguous(), x = input.contiguous(), row_mean = mean.contiguous(), row_rstd = rstd.contiguous();
  const auto parameter_gradient = [rows = m](const Tensor& like) {
    return rows > 0 ? contiguous_like(like) : at::zeros_like(like, at::MemoryFormat::Contiguous);
  };
  Tensor dx = output_mask[0] ? contiguous_like(x) : Tensor();
  Tensor dgamma = output_mask[1] ? parameter_gradient(gamma) : Tensor();
  Tensor dbeta = output_mask[2] ? parameter_gradient(beta) : Tensor();
  if (m > 0) {
    layer_norm_backward(current_profile(), dy.const_data_ptr<float>(), x.const_data_ptr<float>(), row_mean.const_data_ptr<float>(),
                        row_rstd.const_data_ptr<float>(), data_or_null(gamma), m, n, mutable_data_or_null(dx),
                        mutable_data_or_null(dgamma), mutable_data_or_null(dbeta));
  }
  return {dx, dgamma, dbeta};
}
DENSECORE_OP("aten::native_layer_norm_backward", layer_norm_gradients);

}  // namespace
}  // namespace densecore
