// What the bindings of reductions share.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>

#include <algorithm>

#include "aten/Reduce.h"

namespace densecore {

// Brings an out tensor to the shape of self reduced over dim.
inline at::Tensor& resize_to_reduction(const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, at::Tensor& out) {
  at::native::resize_output(out, at::native::shape_from_dim_mask(self, at::native::make_dim_mask(dim, self.dim()), keepdim));
  return out;
}

// Puts a reduction's identity into its float32 output.
inline void set_identity(const at::Tensor& out, float identity) {
  if (out.is_contiguous()) std::fill_n(out.mutable_data_ptr<float>(), out.numel(), identity);
  else out.fill_(identity);
}

// Runs a float32 reduction loop (ReduceLoopFn's form) over `out`, which holds the identity and has the reduction's shape.
template <class Loop>
void run_reduction_loop(const Loop& loop, const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, const at::Tensor& out) {
  at::TensorIterator iter = at::meta::make_reduction_from_out_ty(self, out, dim, keepdim, at::kFloat);
  if (iter.numel() == 0) return;
  parallel_reduce(iter, current_profile(), [&loop](char** data, const int64_t* strides, int64_t size0, int64_t size1) {
    loop(data, strides, size0, size1);
  });
}
inline void run_reduction(const Dispatched<ReduceLoopFn>& kernel, const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim,
                          const at::Tensor& out) {
  run_reduction_loop(kernel.get(), self, dim, keepdim, out);
}

}  // namespace densecore
