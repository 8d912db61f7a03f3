// Per-thread scratch buffers. Compiled once.
#include "scratch.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace densecore {
namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
struct Buffer {
  std::unique_ptr<float, Free> data;
  int64_t capacity = 0;
};

}  // namespace

float* thread_scratch(Scratch slot, int64_t count) {
  static thread_local Buffer buffers[static_cast<int>(Scratch::kCount)];
  Buffer& buffer = buffers[static_cast<int>(slot)];
  if (buffer.capacity < count) {
    const int64_t capacity = (count + 15) / 16 * 16;  // std::aligned_alloc wants a multiple of the alignment
    buffer.data.reset();
    buffer.capacity = 0;
    buffer.data.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(capacity) * sizeof(float))));
    if (!buffer.data) throw std::bad_alloc();
    buffer.capacity = capacity;
  }
  return buffer.data.get();
}

}  // namespace densecore
