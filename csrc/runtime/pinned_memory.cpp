#include "runtime/pinned_memory.h"

#include <c10/core/impl/alloc_cpu.h>

#include <mutex>
#include <unordered_set>

namespace densecore {
namespace {

struct Pinned {
  std::mutex mutex;
  std::unordered_set<const void*> blocks;
};

Pinned& pinned() {
  static auto* all = new Pinned;  // tensors may be freed while the process exits
  return *all;
}

void release(void* block) {
  {
    const std::lock_guard lock(pinned().mutex);
    pinned().blocks.erase(block);
  }
  c10::free_cpu(block);
}

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* block = c10::alloc_cpu(bytes);
    if (block != nullptr) {
      const std::lock_guard lock(pinned().mutex);
      pinned().blocks.insert(block);
    }
    return {block, block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* dest, const void* src, size_t count) const override { default_copy_data(dest, src, count); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static PinnedAllocator allocator;
  return &allocator;
}

bool is_pinned(const void* data) {
  const std::lock_guard lock(pinned().mutex);
  return pinned().blocks.count(data) != 0;
}

}  // namespace densecore
