// at::parallel_for's division of work, by the profile's thread count; and the hook that runs the chunks on the host.
//
// A chunk has its own loop tail and its own partial sums, so its bounds decide bits. They depend on the profile alone; how many
// host threads run the chunks, and in which order, cannot change a bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "profile.h"

namespace densecore {

inline constexpr int64_t kGrainSize = 32768;  // at::internal::GRAIN_SIZE

constexpr int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Runs task(context, i) for every i in [0, count), on as many host threads as the runner likes.
using Task = void(void* context, int64_t index);
using Runner = void(int64_t count, Task* task, void* context);
// The default runner is serial. Inside torch the binding layer sets one that uses at::parallel_for.
void set_runner(Runner* runner);
void run_tasks(int64_t count, Task* task, void* context);

template <class F>
void parallel_run(int64_t count, const F& body) {
  if (count == 1) return body(int64_t{0});
  run_tasks(count, [](void* context, int64_t i) { (*static_cast<const F*>(context))(i); },
            const_cast<void*>(static_cast<const void*>(&body)));
}

// How at::parallel_for (OpenMP backend) divides [begin, end): `count` chunks of `size`, the last one shorter.
struct Chunks {
  int64_t begin;
  int64_t end;
  int64_t size;
  int64_t count;
  int64_t chunk_begin(int64_t i) const { return begin + i * size; }
  int64_t chunk_end(int64_t i) const { return std::min(end, begin + (i + 1) * size); }
};

inline Chunks divide(const Profile& profile, int64_t begin, int64_t end, int64_t grain) {
  const int64_t n = end - begin;
  if (n <= 0) return {begin, end, 0, 0};
  if (n == 1 || n <= grain || profile.threads <= 1) return {begin, end, n, 1};
  int64_t threads = profile.threads;
  if (grain > 0) threads = std::min(threads, divup(n, grain));
  const int64_t size = divup(n, threads);
  return {begin, end, size, divup(n, size)};
}

// at::parallel_for: body(chunk_begin, chunk_end) for every chunk of the profile.
template <class F>
void parallel_for(const Profile& profile, int64_t begin, int64_t end, int64_t grain, const F& body) {
  const Chunks chunks = divide(profile, begin, end, grain);
  if (chunks.count == 0) return;
  parallel_run(chunks.count, [&](int64_t i) { body(chunks.chunk_begin(i), chunks.chunk_end(i)); });
}

}  // namespace densecore
