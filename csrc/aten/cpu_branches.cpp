// Ops in which torch asks for the device: each takes here the branch that a CPU tensor takes.
#include "aten/cpu_branches.h"

#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

// scaled_dot_product_attention chooses by device; the CPU's choice reads shapes and flags only.
int64_t sdpa_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale, bool gqa) {
  return host::run<at::_ops::_fused_sdp_choice>(query, key, value, mask, dropout, causal, scale, gqa);
}

// torch sends this device's dropout to native_dropout, which scales the mask by mul_(1 / (1 - p)); the CPU divides by 1 - p, and
// the two round differently (p = 0.15).
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.numel() == 0) return input;
  if (p == 1) return input.mul(at::zeros({}, input.options()));
  at::Tensor noise = at::empty_like(input);
  noise.bernoulli_(1 - p);
  noise.div_(1 - p);
  return input.mul(noise);
}
DENSECORE_COMPOSITE("aten::dropout", dropout);

// module.to(device) keeps a Parameter's identity, and with it tied weights, only where this is true; torch's own list of
// compatible backends lacks this one.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& tensor) {
    return (tensor.is_cpu() || tensor.is_privateuseone()) && tensor.layout() == c10::kStrided;
  };
  return dense(self) && dense(from);
}
DENSECORE_COMPOSITE("aten::_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);

}  // namespace

void register_cpu_branches() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&sdpa_choice);
}

}  // namespace densecore
