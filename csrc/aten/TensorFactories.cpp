// Tensors without values, and storage: what every other op is built on.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <c10/core/DefaultDtype.h>

#include "aten/op_registration.h"
#include "runtime/allocator.h"

namespace densecore {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::ScalarType check_options(std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                              std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  if (device) check_device_index(*device);
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::kStrided, "layout ", *layout,
                              " is not supported on device 'densecore'");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return dtype.value_or(c10::get_default_dtype_as_scalartype());
}

at::Tensor empty(at::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  const auto type = check_options(dtype, layout, device, pin_memory);
  return at::detail::empty_generic(size, device_allocator(), kKeys, type, memory_format);
}
DENSECORE_DEVICE_OP("aten::empty.memory_format", empty);

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin_memory) {
  const auto type = check_options(dtype, layout, device, pin_memory);
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys, type);
}
DENSECORE_DEVICE_OP("aten::empty_strided", empty_strided);

// ATen's CPU code resizes through the storage's own allocator, so it serves here as it is.
DENSECORE_DEVICE_OP("aten::resize_", at::native::resize_);
DENSECORE_DEVICE_OP("aten::set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
DENSECORE_DEVICE_OP("aten::set_.source_Tensor", at::native::set_tensor_);

at::Tensor& set_storage(at::Tensor& self, c10::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, {elements}, {});
}
DENSECORE_DEVICE_OP("aten::set_.source_Storage", set_storage);

at::Tensor& set_empty(at::Tensor& self) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, device_allocator()->allocate(0), device_allocator(),
                       /*resizable=*/true);
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {0}, {});
}
DENSECORE_DEVICE_OP("aten::set_", set_empty);

}  // namespace
}  // namespace densecore
