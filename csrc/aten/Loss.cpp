// Bindings of losses that are an elementwise term, reduced (ATen/native/Loss.cpp). A term is a few IEEE operations, of which none is a
// sum of an inexact product: the host computes it. Its sum is ours.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/sum.h>

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
  return reduction == at::Reduction::Mean ? at::mean(terms) : at::sum(terms);
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
