// embedding_dense_backward (ATen/native/Embedding.cpp). embedding itself is a composite of index_select.
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/embedding/embedding.h"

namespace densecore {
namespace {

at::Tensor embedding_dense_backward_binding(const at::Tensor& grad, const at::Tensor& indices, int64_t rows, int64_t padding,
                                            bool scale_by_frequency) {
  const auto on_host = [&] { return host::call<at::_ops::embedding_dense_backward>(grad, indices, rows, padding, scale_by_frequency); };
  if (grad.scalar_type() != at::kFloat || (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt)) return on_host();
  const at::Tensor index = indices.contiguous().to(at::kLong);
  const int64_t count = index.numel();
  const int64_t* first = index.const_data_ptr<int64_t>();
  const bool in_range = std::all_of(first, first + count, [rows](int64_t i) { return i >= 0 && i < rows; });
  // Shapes or indices that torch does not check either are left to its own code.
  if (!in_range || grad.dim() == 0 || grad.numel() != count * grad.size(-1)) {
    return host::run<at::_ops::embedding_dense_backward>(grad, indices, rows, padding, scale_by_frequency);
  }
  const at::Tensor rows_of_grad = grad.contiguous();
  const int64_t width = grad.size(-1);
  at::Tensor table = at::zeros({rows, width}, grad.options());
  std::vector<int64_t> frequency(scale_by_frequency ? rows : 0);
  if (scale_by_frequency) std::for_each(first, first + count, [&](int64_t i) { ++frequency[i]; });
  embedding_dense_backward(current_profile(), rows_of_grad.const_data_ptr<float>(), first, count, padding,
                           scale_by_frequency ? frequency.data() : nullptr, table.mutable_data_ptr<float>(), rows, width);
  return table;
}
DENSECORE_OP("aten::embedding_dense_backward", embedding_dense_backward_binding);

}  // namespace
}  // namespace densecore
