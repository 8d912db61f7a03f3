#include "threads.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "host_threads.h"
#include "parallel.h"

namespace digest {
namespace {

int thread_count = 1;

void run_on_threads(int64_t count, densecore::Task* task, void* context) {
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) task(context, i);
  };
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < std::min<int64_t>(thread_count, count); ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();
}

}  // namespace

void use_threads(int count) {
  thread_count = count;
  densecore::set_runner(count > 1 ? &run_on_threads : nullptr);
  densecore::set_host_threads_source([] { return thread_count; });
}

}  // namespace digest
