// Bindings of losses that are an elementwise term, reduced (ATen/native/Loss.cpp). A term is a few IEEE operations, of which none is a
// sum of an inexact product: the host computes it. Its sum is ours.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/sum_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

using at::Tensor;

// `rest` are the op's arguments after the reduction.
template <class Op, class... Rest>
Tensor loss(const Tensor& self, const Tensor& target, int64_t reduction, Rest... rest) {
  if (self.scalar_type() != at::kFloat || target.scalar_type() != at::kFloat) return host::call<Op>(self, target, reduction, rest...);
  const Tensor terms = host::run<Op>(self, target, at::Reduction::None, rest...);
  if (reduction == at::Reduction::None) return terms;
  const c10::DispatchKeySet ours(c10::DispatchKey::PrivateUse1);  // on the CPU too, where sum need not be emulated
  return reduction == at::Reduction::Mean ? at::_ops::mean_dim::redispatch(ours, terms, c10::OptionalArrayRef<int64_t>(), false, {})
                                          : at::_ops::sum_dim_IntList::redispatch(ours, terms, c10::OptionalArrayRef<int64_t>(), false, {});
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

}  // namespace
}  // namespace densecore
