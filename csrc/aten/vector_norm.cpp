// Bindings of vector norms (ATen/native/LinearAlgebra.cpp, ForeachOpsKernels.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/norm.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/reductions.h"

namespace densecore {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

NormOp norm_op(double order) {
  if (order == 0.0) return {Norm::kZero, 0};
  if (order == 1.0) return {Norm::kOne, 0};
  if (order == 2.0) return {Norm::kTwo, 0};
  if (order == INFINITY) return {Norm::kMax, 0};
  if (order == -INFINITY) return {Norm::kMin, 0};
  return {Norm::kPower, static_cast<float>(order)};
}

float& value_at(char* p) { return *reinterpret_cast<float*>(p); }

// is_reduce_lastdim: the reduced elements of an output are contiguous.
bool reduces_contiguous_rows(const at::TensorIteratorBase& iter) {
  return iter.num_reduce_dims() == 1 && iter.is_dim_reduced(0) && iter.strides(1)[0] == static_cast<int64_t>(sizeof(float));
}

void norm_of_rows(const ReducedOutputs& outputs) {
  constexpr int64_t kRows = 64;
  outputs.each_block(kRows, [&](int64_t first, int64_t n) {
    char *in[kRows], *out[kRows];
    float norms[kRows];
    outputs.pointers(1, first, n, in);
    outputs.pointers(0, first, n, out);
    norm_two_rows(reinterpret_cast<const float* const*>(in), n, outputs.elements(), norms);
    for (int64_t k = 0; k < n; ++k) value_at(out[k]) = norms[k];
  });
}

void norm_of_blocks(const ReducedOutputs& outputs, NormOp op) {
  outputs.each_block(kReduceBlock, [&](int64_t first, int64_t n) {
    char *in[kReduceBlock], *out[kReduceBlock];
    float norms[kReduceBlock];
    outputs.pointers(1, first, n, in);
    outputs.pointers(0, first, n, out);
    norm_block(op, in, static_cast<int>(n), outputs.dims(), norms);
    for (int64_t k = 0; k < n; ++k) value_at(out[k]) = norms[k];
  });
}

void norm_of_one(const at::TensorIteratorBase& iter, const ReducedOutputs& outputs, NormOp op) {
  const char* in = static_cast<const char*>(iter.data_ptr(1));
  const auto ranges = reduce_ranges(iter.numel(), current_profile(), [&](int64_t begin, int64_t end) {
    return norm_range(op, in, outputs.dims(), begin, end);
  });
  value_at(static_cast<char*>(iter.data_ptr(0))) = norm_join(op, ranges.data(), static_cast<int>(ranges.size()));
}

void reduce_norm(const Tensor& self, NormOp op, OptionalIntArrayRef dim, bool keepdim, const Tensor& out) {
  const at::TensorIterator iter = at::meta::make_reduction_from_out_ty(self, out, dim, keepdim, at::kFloat);
  const ReducedOutputs outputs(iter);
  if (op.kind == Norm::kTwo && reduces_contiguous_rows(iter)) {
    norm_of_rows(outputs);
  } else if (outputs.count() == 1) {
    norm_of_one(iter, outputs, op);
  } else {
    norm_of_blocks(outputs, op);
  }
}

bool in_float(const Tensor& self, std::optional<ScalarType> dtype) {
  return self.scalar_type() == at::kFloat && dtype.value_or(at::kFloat) == at::kFloat;
}

// Nothing to add up: the op is a fill, an error, |x| or x != 0.
bool is_trivial(const Tensor& self, OptionalIntArrayRef dim) {
  const auto mask = at::native::make_dim_mask(dim, self.dim());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (mask[d] && self.size(d) != 1) return self.numel() == 0;
  }
  return true;
}

Tensor vector_norm(const Tensor& self, const Scalar& ord, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype) {
  using Op = at::_ops::linalg_vector_norm;
  if (!in_float(self, dtype)) return host::call<Op>(self, ord, dim, keepdim, dtype);
  if (is_trivial(self, dim)) return host::run<Op>(self, ord, dim, keepdim, dtype);
  Tensor out = at::native::create_reduction_result(self, dim, keepdim, at::kFloat);
  reduce_norm(self, norm_op(ord.toDouble()), dim, keepdim, out);
  return out;
}
DENSECORE_OP("aten::linalg_vector_norm", vector_norm);

Tensor& vector_norm_out(const Tensor& self, const Scalar& ord, OptionalIntArrayRef dim, bool keepdim, std::optional<ScalarType> dtype,
                        Tensor& out) {
  using Op = at::_ops::linalg_vector_norm_out;
  if (!in_float(self, dtype) || out.scalar_type() != at::kFloat) return host::call<Op>(self, ord, dim, keepdim, dtype, out);
  if (is_trivial(self, dim)) return host::run<Op>(self, ord, dim, keepdim, dtype, out);
  reduce_norm(self, norm_op(ord.toDouble()), dim, keepdim, resize_to_reduction(self, dim, keepdim, out));
  return out;
}
DENSECORE_OP("aten::linalg_vector_norm.out", vector_norm_out);

Tensor norm(const Tensor& self, const std::optional<Scalar>& p, at::IntArrayRef dim, bool keepdim) {
  if (!in_float(self, std::nullopt)) return host::call<at::_ops::norm_ScalarOpt_dim>(self, p, dim, keepdim);
  return vector_norm(self, p.value_or(2.0), dim, keepdim, std::nullopt);
}
DENSECORE_OP("aten::norm.ScalarOpt_dim", norm);

Tensor norm_with_dtype(const Tensor& self, const std::optional<Scalar>& p, at::IntArrayRef dim, bool keepdim, ScalarType dtype) {
  if (!in_float(self, dtype)) return host::call<at::_ops::norm_ScalarOpt_dim_dtype>(self, p, dim, keepdim, dtype);
  return vector_norm(self, p.value_or(2.0), dim, keepdim, dtype);
}
DENSECORE_OP("aten::norm.ScalarOpt_dim_dtype", norm_with_dtype);

// ---- _foreach_norm -------------------------------------------------------------------------------------------------------

// Norms of dense tensors of the same number of elements, side by side.
void norms_of_equal_size(const std::vector<size_t>& members, at::TensorList self, std::vector<Tensor>& norms) {
  std::vector<const float*> rows(members.size());
  std::vector<float> values(members.size());
  for (size_t k = 0; k < members.size(); ++k) rows[k] = self[members[k]].const_data_ptr<float>();
  norm_two_rows(rows.data(), static_cast<int64_t>(rows.size()), self[members[0]].numel(), values.data());
  for (size_t k = 0; k < members.size(); ++k) *norms[members[k]].mutable_data_ptr<float>() = values[k];
}

// Runs of equal size in `members`, which is sorted by size.
std::vector<std::vector<size_t>> group_by_size(const std::vector<size_t>& members, at::TensorList self) {
  std::vector<std::vector<size_t>> groups;
  for (const size_t i : members) {
    if (groups.empty() || self[groups.back()[0]].numel() != self[i].numel()) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

std::vector<Tensor> foreach_norm(at::TensorList self, const Scalar& ord, std::optional<ScalarType> dtype) {
  const auto claimed = [&](const Tensor& t) { return in_float(t, dtype); };
  if (self.empty() || !std::all_of(self.begin(), self.end(), claimed)) {
    return host::call<at::_ops::_foreach_norm_Scalar>(self, ord, dtype);
  }
  const bool two = ord.toDouble() == 2.0;
  std::vector<Tensor> norms(self.size());
  std::vector<size_t> members;
  for (size_t i = 0; i < self.size(); ++i) {
    if (two && self[i].numel() > 1 && self[i].is_non_overlapping_and_dense()) {
      norms[i] = at::empty({}, self[i].options());
      members.push_back(i);
    } else {
      norms[i] = at::linalg_vector_norm(self[i], ord, OptionalIntArrayRef{}, false, dtype);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&](size_t a, size_t b) { return self[a].numel() > self[b].numel(); });
  const auto groups = group_by_size(members, self);
  parallel_run(static_cast<int64_t>(groups.size()), [&](int64_t g) { norms_of_equal_size(groups[g], self, norms); });
  return norms;
}
DENSECORE_OP("aten::_foreach_norm.Scalar", foreach_norm);

}  // namespace
}  // namespace densecore
