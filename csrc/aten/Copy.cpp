// copy_ between any two of densecore and cpu: both are host memory.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/real.h>

#include "aten/Convert.h"
#include "aten/host_call.h"
#include "aten/host_draws.h"
#include "aten/op_policy.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

// Half precision to integers: hosts differ for values out of range, and no kernel of ours has been compared with the reference.
void check_half_to_integer(const at::Tensor& self, const at::Tensor& src) {
  if (!at::isReducedFloatingType(src.scalar_type()) || !at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) return;
  static OpPolicy& policy = policy_of("aten::copy_ (half precision to integer)");
  TORCH_CHECK_NOT_IMPLEMENTED(policy.decide(dtype_bit(src.scalar_type())) != ServedBy::kOracle,
                              "aten::copy_ of ", src.scalar_type(), " to ", self.scalar_type(),
                              " cannot be sent to the oracle; convert to float32 first");
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (src.is_cpu() && self.is_privateuseone()) on_transfer_from_host();
  if (at::isComplexType(src.scalar_type()) && at::isIntegralType(self.scalar_type(), /*includeBool=*/false)) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");  // as torch's copy_ says
    return copy_(self, at::real(src), non_blocking);
  }
  if (converts_to_integer(self, src) && self.layout() == src.layout()) return convert_to_integer(self, src);
  check_half_to_integer(self, src);
  if (self.is_same(src)) return self;
  at::assert_no_partial_overlap(self, src);  // the host's copy sees two storages
  at::Tensor host = host::alias(self);
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::native::copy_(host, host::alias(src), non_blocking);
  return self;
}
DENSECORE_DEVICE_OP("aten::copy_", copy_);

}  // namespace
}  // namespace densecore
