// sort and topk (ATen/native/Sorting.cpp). A stable sort is the same on every host; the others order equal keys as the reference's C++
// library does.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sort_ops.h>
#include <ATen/ops/topk_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/sorting/sort.h"

namespace densecore {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using PairOut = std::tuple<at::Tensor&, at::Tensor&>;

std::optional<KeyType> key_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return KeyType::kF32;
    case at::kDouble: return KeyType::kF64;
    case at::kBool:
    case at::kByte: return KeyType::kU8;
    case at::kChar: return KeyType::kI8;
    case at::kShort: return KeyType::kI16;
    case at::kInt: return KeyType::kI32;
    case at::kLong: return KeyType::kI64;
    default: return std::nullopt;
  }
}

PairOut copy_pair(const Pair& result, at::Tensor& values, at::Tensor& indices) {
  at::native::resize_output(values, std::get<0>(result).sizes());
  at::native::resize_output(indices, std::get<1>(result).sizes());
  values.copy_(std::get<0>(result));
  indices.copy_(std::get<1>(result));
  return {values, indices};
}

Pair sort_keys(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending) {
  const auto type = key_type(self.scalar_type());
  if (!type) return host::call<at::_ops::sort_stable>(self, stable, dim, descending);
  if (stable.value_or(false) || self.dim() == 0 || self.numel() == 0) {
    return host::run<at::_ops::sort_stable>(self, stable, dim, descending);
  }
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  at::Tensor keys = self.movedim(axis, -1).clone(at::MemoryFormat::Contiguous);
  at::Tensor places = at::empty(keys.sizes(), keys.options().dtype(at::kLong));
  const int64_t n = keys.size(-1);
  sort_rows(*type, keys.data_ptr(), places.mutable_data_ptr<int64_t>(), keys.numel() / n, n, descending);
  if (axis == self.dim() - 1 && self.is_contiguous()) return {keys, places};
  at::Tensor values = at::empty_like(self), indices = at::empty_like(self, self.options().dtype(at::kLong));
  values.copy_(keys.movedim(-1, axis));
  indices.copy_(places.movedim(-1, axis));
  return {values, indices};
}
DENSECORE_OP("aten::sort.stable", sort_keys);

PairOut sort_out(const at::Tensor& self, std::optional<bool> stable, int64_t dim, bool descending, at::Tensor& values,
                 at::Tensor& indices) {
  const bool claimed = key_type(self.scalar_type()) && values.scalar_type() == self.scalar_type() && indices.scalar_type() == at::kLong;
  if (!claimed) return host::call<at::_ops::sort_values_stable>(self, stable, dim, descending, values, indices);
  return copy_pair(sort_keys(self, stable, dim, descending), values, indices);
}
DENSECORE_OP("aten::sort.values_stable", sort_out);

Pair topk_keys(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted) {
  const auto type = key_type(self.scalar_type());
  if (!type) return host::call<at::_ops::topk>(self, k, dim, largest, sorted);
  // Numbers, empty tensors and bool (an error of torch's) have no order to reproduce.
  if (self.dim() == 0 || self.numel() == 0 || self.scalar_type() == at::kBool) {
    return host::run<at::_ops::topk>(self, k, dim, largest, sorted);
  }
  const int64_t axis = at::maybe_wrap_dim(dim, self.dim());
  if (k < 0 || k > self.size(axis)) host::error<at::_ops::topk>(self, k, dim, largest, sorted);
  const at::Tensor keys = self.movedim(axis, -1).contiguous();
  const int64_t n = keys.size(-1);
  auto sizes = keys.sizes().vec();
  sizes.back() = k;
  at::Tensor values = at::empty(sizes, keys.options()), indices = at::empty(sizes, keys.options().dtype(at::kLong));
  topk_rows(*type, keys.const_data_ptr(), keys.numel() / n, n, k, largest, sorted, values.data_ptr(), indices.mutable_data_ptr<int64_t>());
  if (axis == self.dim() - 1) return {values, indices};
  return {values.movedim(-1, axis).contiguous(), indices.movedim(-1, axis).contiguous()};
}
DENSECORE_OP("aten::topk", topk_keys);

PairOut topk_out(const at::Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, at::Tensor& values, at::Tensor& indices) {
  const bool claimed = key_type(self.scalar_type()) && values.scalar_type() == self.scalar_type() && indices.scalar_type() == at::kLong;
  if (!claimed) return host::call<at::_ops::topk_values>(self, k, dim, largest, sorted, values, indices);
  return copy_pair(topk_keys(self, k, dim, largest, sorted), values, indices);
}
DENSECORE_OP("aten::topk.values", topk_out);

}  // namespace
}  // namespace densecore
