// Bindings of sum, nansum and mean (ATen/native/ReduceOps.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/sum.h>

#include <optional>

#include "aten/Reduce.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/reduce/SumKernel.h"

namespace densecore {
namespace {

using at::OptionalIntArrayRef;
using at::ScalarType;
using at::Tensor;

// Inputs that are converted to float32, which any host does alike, and then reduced.
bool reduces_in_float(const Tensor& self, ScalarType dtype) { return dtype == at::kFloat && !self.is_complex(); }

void reduce_sum(const Dispatched<ReduceLoopFn>& kernel, const Tensor& self, OptionalIntArrayRef dim, bool keepdim, const Tensor& out) {
  out.zero_();
  at::TensorIterator iter = at::meta::make_reduction_from_out_ty(self, out, dim, keepdim, out.scalar_type());
  if (iter.numel() == 0) return;
  parallel_reduce(iter, current_profile(), [loop = kernel.get()](char** data, const int64_t* strides, int64_t size0, int64_t size1) {
    loop(data, strides, size0, size1);
  });
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

// The out tensor brought to the reduction's shape.
Tensor& shaped(const Tensor& self, OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, at::native::make_dim_mask(dim, self.dim()), keepdim));
  return out;
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
  reduce_sum(sum_loop, self, dim, keepdim, shaped(self, dim, keepdim, out));
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
  reduce_sum(nansum_loop, self, dim, keepdim, shaped(self, dim, keepdim, out));
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
  reduce_sum(sum_loop, self, dim, keepdim, shaped(self, dim, keepdim, out));
  divide_by_count(self, dim, out);
  return out;
}
DENSECORE_OP("aten::mean.out", mean_out);

}  // namespace
}  // namespace densecore
