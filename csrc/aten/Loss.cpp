// Bindings of losses that are an elementwise term, reduced (ATen/native/Loss.cpp). A term is a few IEEE operations, of which none is a
// sum of an inexact product: the host computes it, but for the logarithms of binary_cross_entropy. Its sum is ours.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/binary_cross_entropy_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/sum_ops.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/loss/Loss.h"
#include "numerics/parallel.h"

namespace densecore {
namespace {

using at::Tensor;

Tensor reduced(const Tensor& terms, int64_t reduction) {
  if (reduction == at::Reduction::None) return terms;
  const c10::DispatchKeySet ours(c10::DispatchKey::PrivateUse1);  // on the CPU too, where sum need not be emulated
  return reduction == at::Reduction::Mean ? at::_ops::mean_dim::redispatch(ours, terms, c10::OptionalArrayRef<int64_t>(), false, {})
                                          : at::_ops::sum_dim_IntList::redispatch(ours, terms, c10::OptionalArrayRef<int64_t>(), false, {});
}

// `rest` are the op's arguments after the reduction.
template <class Op, class... Rest>
Tensor loss(const Tensor& self, const Tensor& target, int64_t reduction, Rest... rest) {
  if (self.scalar_type() != at::kFloat || target.scalar_type() != at::kFloat) return host::call<Op>(self, target, reduction, rest...);
  return reduced(host::run<Op>(self, target, at::Reduction::None, rest...), reduction);
}

Tensor mse_loss(const Tensor& self, const Tensor& target, int64_t reduction) {
  return loss<at::_ops::mse_loss>(self, target, reduction);
}
DENSECORE_OP("aten::mse_loss", mse_loss);

Tensor smooth_l1_loss(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  return loss<at::_ops::smooth_l1_loss>(self, target, reduction, beta);
}
DENSECORE_OP("aten::smooth_l1_loss", smooth_l1_loss);

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  return loss<at::_ops::huber_loss>(self, target, reduction, delta);
}
DENSECORE_OP("aten::huber_loss", huber_loss);

Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const std::optional<Tensor>& weight, int64_t reduction) {
  using Op = at::_ops::binary_cross_entropy;
  const bool weighted = weight && weight->defined();
  if (self.scalar_type() != at::kFloat || target.scalar_type() != at::kFloat || (weighted && weight->scalar_type() != at::kFloat)) {
    return host::call<Op>(self, target, weight, reduction);
  }
  if (!at::is_expandable_to(target.sizes(), self.sizes())) host::error<Op>(self, target, weight, reduction);
  const Tensor x = self.contiguous(), y = target.expand(self.sizes()).contiguous();
  Tensor terms = at::empty_like(x, at::MemoryFormat::Contiguous);
  const float* const x_data = x.const_data_ptr<float>();
  const float* const y_data = y.const_data_ptr<float>();
  float* const out = terms.mutable_data_ptr<float>();
  constexpr int64_t kPart = 2048;  // elements of a task: each is independent
  std::atomic<bool> valid{true};
  parallel_run(divup(x.numel(), kPart), [&](int64_t task) {
    const int64_t begin = task * kPart, count = std::min(kPart, x.numel() - begin);
    if (!binary_cross_entropy_terms(x_data + begin, y_data + begin, count, out + begin)) valid = false;
  });
  if (!valid) host::error<Op>(self, target, weight, reduction);
  // The reference's terms lie in memory as self does, which is the order of their sum.
  if (!self.is_contiguous()) terms = at::empty_like(self).copy_(terms);
  return reduced(weighted ? terms.mul_(*weight) : terms, reduction);
}
DENSECORE_OP("aten::binary_cross_entropy", binary_cross_entropy);

}  // namespace
}  // namespace densecore
