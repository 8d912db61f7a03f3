// Memory of the device: ordinary host memory, counted.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <string>

namespace densecore {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;
inline const c10::Device kDevice{kDeviceType, 0};

// 64-byte aligned; raises OutOfMemoryError.
c10::Allocator* device_allocator();
// From here on an allocation raises an error with this text; an empty one allows them again. For a profile that the kernels do not
// reproduce: no tensor, no wrong bits.
void refuse_allocations(std::string reason);

// Wraps the bytes of one storage in a DataPtr for the other device. The result owns a reference, so the bytes live as long as
// either side does.
c10::DataPtr host_view(c10::StorageImpl* device_storage);
c10::DataPtr device_view(c10::StorageImpl* host_storage);

// Raises torch's "invalid device ordinal" error unless `device` is densecore or densecore:0.
void check_device_index(c10::Device device);

struct MemoryStats {
  int64_t allocated;
  int64_t peak;
  int64_t allocations;
};
MemoryStats memory_stats();
void reset_peak_memory();

}  // namespace densecore
