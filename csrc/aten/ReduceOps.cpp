// Bindings of sum, nansum, mean, prod, amax and amin (ATen/native/ReduceOps.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sum.h>

#include <cmath>
#include <optional>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/reductions.h"
#include "numerics/variant/sum.h"

namespace densecore {
namespace {

using at::OptionalIntArrayRef;
using at::ScalarType;
using at::Tensor;

// Inputs that are converted to float32, which any host does alike, and then reduced.
bool reduces_in_float(const Tensor& self, ScalarType dtype) { return dtype == at::kFloat && !self.is_complex(); }

void reduce_sum(const Dispatched<ReduceLoopFn>& kernel, const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const Tensor& out) {
  set_identity(out, 0);
  const Profile& profile = current_profile();
  if (!profile.needs_variant()) return run_reduction(kernel, self, dim, keepdim, out);
  const auto loop = [&, skip_nan = &kernel == &nansum_loop](auto... arguments) { variant::sum_loop(profile, skip_nan, arguments...); };
  run_reduction_loop(loop, self, dim, keepdim, out);
}

void divide_by_count(const Tensor& self, OptionalIntArrayRef dim, const Tensor& out) {
  int64_t count = 1;
  if (!dim || dim->empty() || self.dim() == 0) {
    count = self.numel();
  } else {
    for (const int64_t d : *dim) count *= self.size(d);
  }
  const_cast<Tensor&>(out).div_(count);
}

Tensor sum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  const ScalarType out_dtype = at::native::get_dtype_from_self(self, dtype, true);
  if (!reduces_in_float(self, out_dtype)) return host::call<at::_ops::sum_dim_IntList>(self, dim, keepdim, dtype);
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, out_dtype);
  reduce_sum(sum_loop, self, dim, keepdim, out);
  return out;
}
DENSECORE_OP("aten::sum.dim_IntList", sum);

Tensor& sum_out(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
  if (!reduces_in_float(self, dtype.value_or(out.scalar_type())) || out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::sum_IntList_out>(self, dim, keepdim, dtype, out);
  }
  reduce_sum(sum_loop, self, dim, keepdim, resize_to_reduction(self, dim, keepdim, out));
  return out;
}
DENSECORE_OP("aten::sum.IntList_out", sum_out);

Tensor nansum(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  const ScalarType out_dtype = at::native::get_dtype_from_self(self, dtype, true);
  if (!at::isFloatingType(self.scalar_type()) || !reduces_in_float(self, out_dtype)) {
    return host::call<at::_ops::nansum>(self, dim, keepdim, dtype);
  }
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, out_dtype);
  reduce_sum(nansum_loop, self, dim, keepdim, out);
  return out;
}
DENSECORE_OP("aten::nansum", nansum);

Tensor& nansum_out(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
  if (!at::isFloatingType(self.scalar_type()) || !reduces_in_float(self, dtype.value_or(out.scalar_type())) ||
      out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::nansum_out>(self, dim, keepdim, dtype, out);
  }
  reduce_sum(nansum_loop, self, dim, keepdim, resize_to_reduction(self, dim, keepdim, out));
  return out;
}
DENSECORE_OP("aten::nansum.out", nansum_out);

// An integer self needs a dtype; the host's op says so.
bool mean_in_float(const Tensor& self, std::optional<ScalarType> dtype) {
  return (dtype || at::isFloatingType(self.scalar_type())) && reduces_in_float(self, dtype.value_or(self.scalar_type()));
}

Tensor mean(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  if (!mean_in_float(self, dtype)) return host::call<at::_ops::mean_dim>(self, dim, keepdim, dtype);
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  reduce_sum(sum_loop, self, dim, keepdim, out);
  divide_by_count(self, dim, out);
  return out;
}
DENSECORE_OP("aten::mean.dim", mean);

Tensor& mean_out(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
  if (!mean_in_float(self, dtype.value_or(out.scalar_type())) || out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::mean_out>(self, dim, keepdim, dtype, out);
  }
  reduce_sum(sum_loop, self, dim, keepdim, resize_to_reduction(self, dim, keepdim, out));
  divide_by_count(self, dim, out);
  return out;
}
DENSECORE_OP("aten::mean.out", mean_out);

// ---- prod ----------------------------------------------------------------------------------------------------------------

Tensor reduce_prod(const Tensor& self, OptionalIntArrayRef dim, bool keepdim) {
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  set_identity(out, 1);
  run_reduction(prod_loop, self, dim, keepdim, out);
  return out;
}

Tensor prod(const Tensor& self, std::optional<ScalarType> dtype) {
  if (!reduces_in_float(self, at::native::get_dtype_from_self(self, dtype, true))) return host::call<at::_ops::prod>(self, dtype);
  return reduce_prod(self, at::IntArrayRef{}, false);
}
DENSECORE_OP("aten::prod", prod);

Tensor prod_dim(const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype) {
  if (!reduces_in_float(self, at::native::get_dtype_from_self(self, dtype, true))) {
    return host::call<at::_ops::prod_dim_int>(self, dim, keepdim, dtype);
  }
  return reduce_prod(self, at::IntArrayRef(dim), keepdim);
}
DENSECORE_OP("aten::prod.dim_int", prod_dim);

Tensor& prod_out(const Tensor& self, int64_t dim, bool keepdim, std::optional<ScalarType> dtype, Tensor& out) {
  if (!reduces_in_float(self, dtype.value_or(out.scalar_type())) || out.scalar_type() != at::kFloat) {
    return host::call<at::_ops::prod_int_out>(self, dim, keepdim, dtype, out);
  }
  set_identity(resize_to_reduction(self, at::IntArrayRef(dim), keepdim, out), 1);
  run_reduction(prod_loop, self, at::IntArrayRef(dim), keepdim, out);
  return out;
}
DENSECORE_OP("aten::prod.int_out", prod_out);

// ---- amax, amin ----------------------------------------------------------------------------------------------------------

struct Extreme {
  const Dispatched<ReduceLoopFn>& kernel;
  float identity;
};
constexpr Extreme kMaximum{max_values_loop, -INFINITY};
constexpr Extreme kMinimum{min_values_loop, INFINITY};

template <class Op>
Tensor extreme(const Extreme& e, const Tensor& self, at::IntArrayRef dim, bool keepdim) {
  if (self.scalar_type() != at::kFloat) return host::call<Op>(self, dim, keepdim);
  if (self.numel() == 0) return host::run<Op>(self, dim, keepdim);  // an error or an empty output
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  set_identity(out, e.identity);
  run_reduction(e.kernel, self, dim, keepdim, out);
  return out;
}

template <class Op>
Tensor& extreme_out(const Extreme& e, const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  if (self.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat) return host::call<Op>(self, dim, keepdim, out);
  if (self.numel() == 0) return host::run<Op>(self, dim, keepdim, out);
  set_identity(resize_to_reduction(self, dim, keepdim, out), e.identity);
  run_reduction(e.kernel, self, dim, keepdim, out);
  return out;
}

Tensor amax(const Tensor& self, at::IntArrayRef dim, bool keepdim) { return extreme<at::_ops::amax>(kMaximum, self, dim, keepdim); }
DENSECORE_OP("aten::amax", amax);
Tensor& amax_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  return extreme_out<at::_ops::amax_out>(kMaximum, self, dim, keepdim, out);
}
DENSECORE_OP("aten::amax.out", amax_out);
Tensor amin(const Tensor& self, at::IntArrayRef dim, bool keepdim) { return extreme<at::_ops::amin>(kMinimum, self, dim, keepdim); }
DENSECORE_OP("aten::amin", amin);
Tensor& amin_out(const Tensor& self, at::IntArrayRef dim, bool keepdim, Tensor& out) {
  return extreme_out<at::_ops::amin_out>(kMinimum, self, dim, keepdim, out);
}
DENSECORE_OP("aten::amin.out", amin_out);

}  // namespace
}  // namespace densecore
