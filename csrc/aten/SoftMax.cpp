// Bindings of softmax, log-softmax and their gradients (ATen/native/SoftMax.cpp).
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isneginf.h>

#include <optional>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/softmax/SoftMaxKernel.h"
#include "numerics/variant/softmax.h"

namespace densecore {
namespace {

using at::ScalarType;
using at::Tensor;

// A contiguous tensor as (outer, dim, inner); rows if the dimension is the last.
struct Split {
  SoftmaxShape shape;
  bool last;
};

Split split_at(const Tensor& t, int64_t dim) {
  const int64_t d = at::maybe_wrap_dim(dim, t.dim());
  Split split{{1, t.dim() == 0 ? 1 : t.size(d), 1}, d + 1 >= t.dim()};
  for (int64_t i = 0; i < t.dim(); ++i) {
    if (i < d) split.shape.outer *= t.size(i);
    if (i > d) split.shape.inner *= t.size(i);
  }
  return split;
}

Tensor contiguous_empty(const Tensor& like) { return at::empty(like.sizes(), like.options()); }

// Writes what a functional form computed into an out tensor. ATen's kernels take no notice of the tensor's strides: they write a
// contiguous result from its first element on.
Tensor& write_out(const Tensor& result, Tensor& out) {
  at::native::resize_output(out, result.sizes());
  out.as_strided(result.sizes(), result.strides()).copy_(result);
  return out;
}

// ---- forward -------------------------------------------------------------------------------------------------------------

struct Forward {
  const Dispatched<SoftmaxRowsFn>& rows;
  const Dispatched<SoftmaxColumnsFn>& columns;
  decltype(variant::softmax_rows)* variant_rows;
  decltype(variant::softmax_columns)* variant_columns;
};
constexpr Forward kSoftmax{softmax_rows, softmax_columns, variant::softmax_rows, variant::softmax_columns};
constexpr Forward kLogSoftmax{log_softmax_rows, log_softmax_columns, variant::log_softmax_rows, variant::log_softmax_columns};

Tensor forward(const Forward& kernel, const Tensor& self, int64_t dim) {
  const Split split = split_at(self, dim);
  const Tensor input = self.contiguous();
  Tensor out = contiguous_empty(self);
  if (input.numel() == 0) return out;
  const float* x = input.const_data_ptr<float>();
  float* y = out.mutable_data_ptr<float>();
  const Profile& profile = current_profile();
  const bool other = profile.needs_variant();
  if (split.last && other) kernel.variant_rows(profile, x, split.shape.outer, split.shape.dim, y);
  else if (split.last) kernel.rows(x, split.shape.outer, split.shape.dim, y);
  else if (other) kernel.variant_columns(profile, x, split.shape, y);
  else kernel.columns(profile, x, split.shape, y);
  return out;
}

bool claims(const Tensor& self, bool half_to_float) { return self.scalar_type() == at::kFloat && !half_to_float; }

Tensor softmax(const Tensor& self, int64_t dim, bool half_to_float) {
  if (!claims(self, half_to_float)) return host::call<at::_ops::_softmax>(self, dim, half_to_float);
  return forward(kSoftmax, self, dim);
}
DENSECORE_OP("aten::_softmax", softmax);

Tensor& softmax_out(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  if (!claims(self, half_to_float) || out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::_softmax_out>(self, dim, half_to_float, out);
  }
  return write_out(forward(kSoftmax, self, dim), out);
}
DENSECORE_OP("aten::_softmax.out", softmax_out);

Tensor log_softmax(const Tensor& self, int64_t dim, bool half_to_float) {
  if (!claims(self, half_to_float)) return host::call<at::_ops::_log_softmax>(self, dim, half_to_float);
  return forward(kLogSoftmax, self, dim);
}
DENSECORE_OP("aten::_log_softmax", log_softmax);

Tensor& log_softmax_out(const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  if (!claims(self, half_to_float) || out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::_log_softmax_out>(self, dim, half_to_float, out);
  }
  return write_out(forward(kLogSoftmax, self, dim), out);
}
DENSECORE_OP("aten::_log_softmax.out", log_softmax_out);

// Rows that are masked throughout (-inf) give zeros.
Tensor safe_softmax(const Tensor& self, int64_t dim, std::optional<ScalarType> dtype) {
  if (self.is_complex() || dtype.value_or(self.scalar_type()) != at::kFloat) {
    return host::call<at::_ops::_safe_softmax>(self, dim, dtype);
  }
  const Tensor input = self.to(at::kFloat).contiguous();
  const Split split = split_at(input, dim);
  if (!split.last || current_profile().needs_variant()) {
    return forward(kSoftmax, input, dim).masked_fill_(at::all(at::isneginf(input), dim, /*keepdim=*/true), 0.0);
  }
  Tensor out = contiguous_empty(input);
  if (input.numel() > 0) {
    safe_softmax_rows(input.const_data_ptr<float>(), split.shape.outer, split.shape.dim, out.mutable_data_ptr<float>());
  }
  return out;
}
DENSECORE_OP("aten::_safe_softmax", safe_softmax);

// ---- backward ------------------------------------------------------------------------------------------------------------

struct Backward {
  const Dispatched<SoftmaxRowsBackwardFn>& rows;
  const Dispatched<SoftmaxColumnsBackwardFn>& columns;
  decltype(variant::softmax_rows_backward)* variant_rows;
  decltype(variant::softmax_columns_backward)* variant_columns;
};
constexpr Backward kSoftmaxBackward{softmax_rows_backward, softmax_columns_backward, variant::softmax_rows_backward,
                                    variant::softmax_columns_backward};
constexpr Backward kLogSoftmaxBackward{log_softmax_rows_backward, log_softmax_columns_backward, variant::log_softmax_rows_backward,
                                       variant::log_softmax_columns_backward};

Tensor backward(const Backward& kernel, const Tensor& grad, const Tensor& output, int64_t dim) {
  const Split split = split_at(grad, dim);
  const Tensor g = grad.contiguous(), y = output.contiguous();
  Tensor grad_input = contiguous_empty(grad);
  if (grad.numel() == 0) return grad_input;
  const float *dy = g.const_data_ptr<float>(), *out = y.const_data_ptr<float>();
  float* dx = grad_input.mutable_data_ptr<float>();
  const Profile& profile = current_profile();
  const bool other = profile.needs_variant();
  if (split.last && other) kernel.variant_rows(profile, dy, out, split.shape.outer, split.shape.dim, dx);
  else if (split.last) kernel.rows(dy, out, split.shape.outer, split.shape.dim, dx);
  else if (other) kernel.variant_columns(profile, dy, out, split.shape, dx);
  else kernel.columns(dy, out, split.shape, dx);
  return grad_input;
}

bool claims(const Tensor& grad, const Tensor& output, ScalarType input_dtype) {
  return grad.scalar_type() == at::kFloat && output.scalar_type() == at::kFloat && input_dtype == at::kFloat;
}

template <class Op>
Tensor backward_op(const Backward& kernel, const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype) {
  if (!claims(grad, output, input_dtype)) return host::call<Op>(grad, output, dim, input_dtype);
  if (grad.sizes() != output.sizes()) host::error<Op>(grad, output, dim, input_dtype);
  return backward(kernel, grad, output, dim);
}

template <class Op>
Tensor& backward_out(const Backward& kernel, const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype, Tensor& out) {
  if (!claims(grad, output, input_dtype) || out.scalar_type() != at::kFloat) {
    return host::call<Op>(grad, output, dim, input_dtype, out);
  }
  if (grad.sizes() != output.sizes()) host::error<Op>(grad, output, dim, input_dtype, out);
  return write_out(backward(kernel, grad, output, dim), out);
}

Tensor softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype) {
  return backward_op<at::_ops::_softmax_backward_data>(kSoftmaxBackward, grad, output, dim, input_dtype);
}
DENSECORE_OP("aten::_softmax_backward_data", softmax_backward);

Tensor& softmax_backward_out(const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype, Tensor& grad_input) {
  return backward_out<at::_ops::_softmax_backward_data_out>(kSoftmaxBackward, grad, output, dim, input_dtype, grad_input);
}
DENSECORE_OP("aten::_softmax_backward_data.out", softmax_backward_out);

Tensor log_softmax_backward(const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype) {
  return backward_op<at::_ops::_log_softmax_backward_data>(kLogSoftmaxBackward, grad, output, dim, input_dtype);
}
DENSECORE_OP("aten::_log_softmax_backward_data", log_softmax_backward);

Tensor& log_softmax_backward_out(const Tensor& grad, const Tensor& output, int64_t dim, ScalarType input_dtype, Tensor& out) {
  return backward_out<at::_ops::_log_softmax_backward_data_out>(kLogSoftmaxBackward, grad, output, dim, input_dtype, out);
}
DENSECORE_OP("aten::_log_softmax_backward_data.out", log_softmax_backward_out);

}  // namespace
}  // namespace densecore
