// copy_ between any two of densecore and cpu: both are host memory.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/copy_native.h>

#include "aten/Convert.h"
#include "aten/host_call.h"
#include "aten/host_draws.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (src.is_cpu() && self.is_privateuseone()) on_transfer_from_host();
  if (converts_to_integer(self, src) && self.layout() == src.layout()) return convert_to_integer(self, src);
  at::Tensor host = host::alias(self);
  const at::AutoDispatchBelowADInplaceOrView guard;
  at::native::copy_(host, host::alias(src), non_blocking);
  return self;
}
DENSECORE_DEVICE_OP("aten::copy_", copy_);

}  // namespace
}  // namespace densecore
