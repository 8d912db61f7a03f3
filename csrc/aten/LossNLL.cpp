// Bindings of the negative log likelihood loss (ATen/native/LossNLL.cpp, LossNLL2d.cpp). Without a reduction, and for a single sample,
// an element is one product, which the host computes; so are the gradients.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nll_loss2d_forward.h>
#include <ATen/ops/nll_loss_forward.h>

#include <optional>
#include <tuple>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/loss/LossNLL.h"

namespace densecore {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Result = std::tuple<Tensor, Tensor>;
using ResultRef = std::tuple<Tensor&, Tensor&>;

bool claims(const Tensor& self, const OptionalTensor& weight) {
  return self.scalar_type() == at::kFloat && (!weight || !weight->defined() || weight->scalar_type() == at::kFloat);
}

// A batch of samples, or of images, that the reference sums; everything else, invalid arguments included, is the host's.
bool is_summed(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t dims) {
  const bool shapes = self.dim() == dims && target.dim() == dims - 1 && self.numel() > 0 && self.size(0) == target.size(0) &&
                      self.sizes().slice(2) == target.sizes().slice(1);
  const bool weights = !weight || !weight->defined() || (shapes && weight->dim() <= 1 && weight->numel() == self.size(1));
  const bool targets = target.scalar_type() == at::kLong || target.scalar_type() == at::kByte;
  return shapes && weights && targets && reduction != at::Reduction::None;
}

template <class Index>
NllInput<Index> nll_input(const Tensor& self, const Tensor& target, const float* weight, int64_t reduction, int64_t ignore_index) {
  const int64_t batch = self.size(0), classes = self.size(1);
  return {self.const_data_ptr<float>(), target.const_data_ptr<Index>(), weight, batch, classes, self.numel() / (batch * classes),
          ignore_index, reduction == at::Reduction::Mean};
}

NllResult sum_losses(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore_index) {
  const Tensor input = self.contiguous(), targets = target.contiguous();
  const Tensor weights = weight && weight->defined() ? weight->contiguous() : Tensor();
  const float* w = weights.defined() ? weights.const_data_ptr<float>() : nullptr;
  if (targets.scalar_type() == at::kByte) return nll_loss_byte(nll_input<uint8_t>(input, targets, w, reduction, ignore_index));
  return nll_loss(nll_input<int64_t>(input, targets, w, reduction, ignore_index));
}

void set(const Tensor& scalar, float value) { *scalar.mutable_data_ptr<float>() = value; }

template <class Op>
Result forward(int64_t dims, const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
               int64_t ignore_index) {
  if (!claims(self, weight)) return host::call<Op>(self, target, weight, reduction, ignore_index);
  if (!is_summed(self, target, weight, reduction, dims)) return host::run<Op>(self, target, weight, reduction, ignore_index);
  const NllResult result = sum_losses(self, target, weight, reduction, ignore_index);
  if (!result.valid) host::error<Op>(self, target, weight, reduction, ignore_index);
  Tensor output = at::empty({}, self.options()), total_weight = at::empty({}, self.options());
  set(output, result.loss);
  set(total_weight, result.total_weight);
  return {output, total_weight};
}

template <class Op>
ResultRef forward_out(int64_t dims, const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                      int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  const bool floats = output.scalar_type() == at::kFloat && total_weight.scalar_type() == at::kFloat;
  if (!claims(self, weight) || !floats) {
    return host::call<Op>(self, target, weight, reduction, ignore_index, output, total_weight);
  }
  if (!is_summed(self, target, weight, reduction, dims)) {
    return host::run<Op>(self, target, weight, reduction, ignore_index, output, total_weight);
  }
  const NllResult result = sum_losses(self, target, weight, reduction, ignore_index);
  if (!result.valid) host::error<Op>(self, target, weight, reduction, ignore_index, output, total_weight);
  at::native::resize_output(output, {});
  at::native::resize_output(total_weight, {});
  set(output, result.loss);
  set(total_weight, result.total_weight);
  return {output, total_weight};
}

Result nll_forward(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore_index) {
  return forward<at::_ops::nll_loss_forward>(2, self, target, weight, reduction, ignore_index);
}
DENSECORE_OP("aten::nll_loss_forward", nll_forward);

ResultRef nll_forward_out(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                          int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  return forward_out<at::_ops::nll_loss_forward_output>(2, self, target, weight, reduction, ignore_index, output, total_weight);
}
DENSECORE_OP("aten::nll_loss_forward.output", nll_forward_out);

Result nll2d_forward(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction, int64_t ignore_index) {
  return forward<at::_ops::nll_loss2d_forward>(4, self, target, weight, reduction, ignore_index);
}
DENSECORE_OP("aten::nll_loss2d_forward", nll2d_forward);

ResultRef nll2d_forward_out(const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction,
                            int64_t ignore_index, Tensor& output, Tensor& total_weight) {
  return forward_out<at::_ops::nll_loss2d_forward_output>(4, self, target, weight, reduction, ignore_index, output, total_weight);
}
DENSECORE_OP("aten::nll_loss2d_forward.output", nll2d_forward_out);

}  // namespace
}  // namespace densecore
