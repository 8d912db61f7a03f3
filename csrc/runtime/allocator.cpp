#include "runtime/allocator.h"

#include <c10/core/AutogradState.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

namespace densecore {
namespace {

std::atomic<int64_t> allocated_bytes{0};
std::atomic<int64_t> peak_bytes{0};
std::atomic<int64_t> allocation_count{0};

// The autograd engine gives a device of its own a worker thread. A CPU tensor's backward runs on the caller's thread, in the
// caller's floating-point environment and in one queue with the host's nodes, which fixes the order of gradient accumulation;
// ours must do the same. The switch is thread-local, so each thread sets it when it first holds memory of the device.
void keep_backward_on_caller() {
  thread_local bool done = false;
  if (done) return;
  done = true;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

void count_allocation(size_t bytes) {
  keep_backward_on_caller();
  const auto size = static_cast<int64_t>(bytes);
  const int64_t now = allocated_bytes.fetch_add(size, std::memory_order_relaxed) + size;
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void count_release(size_t bytes) {
  allocated_bytes.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

// The size is kept in front of the block, one cache line, so that the block itself stays aligned to 64 bytes.
constexpr size_t kHeader = 64;

void release_block(void* block) {
  size_t bytes;
  std::memcpy(&bytes, block, sizeof bytes);
  count_release(bytes);
  c10::free_cpu(block);
}

std::atomic<bool> refused{false};
std::string refusal;  // written before `refused` is set, while no other thread allocates on the device

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    TORCH_CHECK(!refused.load(std::memory_order_acquire), refusal);
    if (bytes == 0) {
      count_allocation(0);
      return {nullptr, nullptr, &c10::detail::deleteNothing, kDevice};
    }
    void* block = nullptr;
    try {
      block = c10::alloc_cpu(bytes + kHeader);
    } catch (const c10::Error&) {
      block = nullptr;
    }
    TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr, "densecore out of memory. Tried to allocate ", bytes,
                     " bytes; this process holds ", allocated_bytes.load(), " bytes on densecore, which is host memory.");
    std::memcpy(block, &bytes, sizeof bytes);
    count_allocation(bytes);
    return {static_cast<char*>(block) + kHeader, block, &release_block, kDevice};
  }

  void copy_data(void* dest, const void* src, size_t count) const override { default_copy_data(dest, src, count); }
};

void release_reference(void* storage) {
  c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(storage));
}

void release_device_view(void* storage) {
  count_release(static_cast<c10::StorageImpl*>(storage)->nbytes());
  release_reference(storage);
}

DeviceAllocator allocator;
REGISTER_ALLOCATOR(kDeviceType, &allocator);

}  // namespace

c10::Allocator* device_allocator() { return &allocator; }

c10::DataPtr host_view(c10::StorageImpl* device_storage) {
  void* data = device_storage->mutable_data_ptr().get();
  c10::raw::intrusive_ptr::incref(device_storage);
  return {data, device_storage, &release_reference, c10::Device(c10::kCPU)};
}

c10::DataPtr device_view(c10::StorageImpl* host_storage) {
  void* data = host_storage->mutable_data_ptr().get();
  count_allocation(host_storage->nbytes());
  c10::raw::intrusive_ptr::incref(host_storage);
  return {data, host_storage, &release_device_view, kDevice};
}

void check_device_index(c10::Device device) {
  TORCH_CHECK(device.index() <= 0, "densecore: invalid device ordinal ", static_cast<int>(device.index()),
              ": there is one densecore device, densecore:0");
}

void refuse_allocations(std::string reason) {
  refused.store(false, std::memory_order_release);
  refusal = std::move(reason);
  refused.store(!refusal.empty(), std::memory_order_release);
}

MemoryStats memory_stats() { return {allocated_bytes.load(), peak_bytes.load(), allocation_count.load()}; }

void reset_peak_memory() { peak_bytes.store(allocated_bytes.load()); }

}  // namespace densecore
