// Bindings of variance and standard deviation (std_var_out and std_var_mean_out of ATen/native/ReduceOps.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/std.h>
#include <ATen/ops/std_mean.h>
#include <ATen/ops/var.h>
#include <ATen/ops/var_mean.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/reductions.h"

namespace densecore {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;
using OptionalScalar = std::optional<Scalar>;

VarianceOp variance_op(const OptionalScalar& correction, bool take_sqrt) { return {correction.value_or(1).toDouble(), take_sqrt}; }

// warn_invalid_degrees_of_freedom.
void warn_about_freedom(const char* name, const at::TensorIterator& iter, double correction) {
  const int64_t per_output = iter.num_output_elements() > 0 ? iter.numel() / iter.num_output_elements() : 0;
  if (iter.num_output_elements() > 0 && static_cast<double>(per_output) - correction <= 0) {
    TORCH_WARN(name, "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel ",
               "divided by output numel).");
  }
}

// std_var_all_cpu: two passes over all elements, in the order of the tensor's memory.
double variance_of_all(const Tensor& self, VarianceOp op) {
  const c10::DispatchKeySet ours(c10::DispatchKey::PrivateUse1);  // on the CPU too, where mean need not be emulated
  const double mean = at::_ops::mean_dim::redispatch(ours, self, c10::OptionalArrayRef<int64_t>(), false, {}).item<float>();
  at::TensorIterator iter = at::TensorIteratorConfig().add_const_input(self).build();
  const auto sums = reduce_ranges(iter.numel(), current_profile(), [&](int64_t begin, int64_t end) {
    double sum = 0;
    const auto loop = [&, kernel = squared_deviations.get()](char** data, const int64_t* strides, int64_t size0, int64_t size1) {
      sum += kernel(data[0], strides, size0, size1, mean);
    };
    iter.serial_for_each(loop, {begin, end});
    return sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  const double variance = total / std::max(0.0, static_cast<double>(self.numel()) - op.correction);
  return op.take_sqrt ? std::sqrt(variance) : variance;
}

// WelfordOps over an iterator whose outputs are the variance and perhaps the mean.
void reduce_welford(at::TensorIterator& iter, VarianceOp op) {
  const ReducedOutputs outputs(iter);
  const bool with_mean = iter.noutputs() == 2;
  const int input = iter.ntensors() - 1;
  const auto store = [](const Variance& v, char* variance, char* mean) {
    *reinterpret_cast<float*>(variance) = v.variance;
    if (mean) *reinterpret_cast<float*>(mean) = v.mean;
  };
  if (outputs.count() == 1) {
    const char* in = static_cast<const char*>(iter.data_ptr(input));
    const auto ranges = reduce_ranges(iter.numel(), current_profile(), [&](int64_t begin, int64_t end) {
      return welford_range(in, outputs.dims(), begin, end);
    });
    const Variance result = welford_join(op, ranges.data(), static_cast<int>(ranges.size()));
    return store(result, static_cast<char*>(iter.data_ptr(0)), with_mean ? static_cast<char*>(iter.data_ptr(1)) : nullptr);
  }
  outputs.each_block(kReduceBlock, [&](int64_t first, int64_t n) {
    char *in[kReduceBlock], *variance[kReduceBlock], *mean[kReduceBlock] = {};
    Variance results[kReduceBlock];
    outputs.pointers(input, first, n, in);
    outputs.pointers(0, first, n, variance);
    if (with_mean) outputs.pointers(1, first, n, mean);
    welford_block(op, in, static_cast<int>(n), outputs.dims(), results);
    for (int64_t k = 0; k < n; ++k) store(results[k], variance[k], mean[k]);
  });
}

void reduce_variance(const char* name, const Tensor& self, OptionalIntArrayRef dim, VarianceOp op, bool keepdim, Tensor& out) {
  at::TensorIterator iter = at::native::make_reduction(name, out, self, dim, keepdim, at::kFloat);
  warn_about_freedom(name, iter, op.correction);
  if (iter.numel() == 0) {
    out.fill_(std::numeric_limits<double>::quiet_NaN());
  } else if (out.numel() == 1) {
    out.fill_(static_cast<float>(variance_of_all(self, op)));
  } else {
    reduce_welford(iter, op);
  }
}

template <class Op>
Tensor variance(const char* name, const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim,
                bool take_sqrt) {
  if (self.scalar_type() != at::kFloat) return host::call<Op>(self, dim, correction, keepdim);
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  reduce_variance(name, self, dim, variance_op(correction, take_sqrt), keepdim, out);
  return out;
}

template <class Op>
Tensor& variance_out(const char* name, const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim,
                     bool take_sqrt, Tensor& out) {
  if (self.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat) return host::call<Op>(self, dim, correction, keepdim, out);
  reduce_variance(name, self, dim, variance_op(correction, take_sqrt), keepdim, resize_to_reduction(self, dim, keepdim, out));
  return out;
}

template <class Op>
std::tuple<Tensor, Tensor> variance_and_mean(const char* name, const Tensor& self, OptionalIntArrayRef dim,
                                             const OptionalScalar& correction, bool keepdim, bool take_sqrt) {
  if (self.scalar_type() != at::kFloat) return host::call<Op>(self, dim, correction, keepdim);
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  Tensor mean = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  const VarianceOp op = variance_op(correction, take_sqrt);
  at::TensorIterator iter = at::native::make_reduction(name, out, mean, self, dim, keepdim, at::kFloat);
  warn_about_freedom(name, iter, op.correction);
  if (iter.numel() == 0) {
    out.fill_(std::numeric_limits<double>::quiet_NaN());
    mean.fill_(std::numeric_limits<double>::quiet_NaN());
  } else {
    reduce_welford(iter, op);
  }
  return {out, mean};
}

Tensor var(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim) {
  return variance<at::_ops::var_correction>("var", self, dim, correction, keepdim, false);
}
DENSECORE_OP("aten::var.correction", var);

Tensor& var_out(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim, Tensor& out) {
  return variance_out<at::_ops::var_correction_out>("var", self, dim, correction, keepdim, false, out);
}
DENSECORE_OP("aten::var.correction_out", var_out);

Tensor standard_deviation(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim) {
  return variance<at::_ops::std_correction>("std", self, dim, correction, keepdim, true);
}
DENSECORE_OP("aten::std.correction", standard_deviation);

Tensor& standard_deviation_out(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim, Tensor& out) {
  return variance_out<at::_ops::std_correction_out>("std", self, dim, correction, keepdim, true, out);
}
DENSECORE_OP("aten::std.correction_out", standard_deviation_out);

std::tuple<Tensor, Tensor> var_mean(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim) {
  return variance_and_mean<at::_ops::var_mean_correction>("var_mean", self, dim, correction, keepdim, false);
}
DENSECORE_OP("aten::var_mean.correction", var_mean);

std::tuple<Tensor, Tensor> std_mean(const Tensor& self, OptionalIntArrayRef dim, const OptionalScalar& correction, bool keepdim) {
  return variance_and_mean<at::_ops::std_mean_correction>("std_mean", self, dim, correction, keepdim, true);
}
DENSECORE_OP("aten::std_mean.correction", std_mean);

}  // namespace
}  // namespace densecore
