// The runner in force. Compiled once.
#include "parallel.h"

#include <atomic>

namespace densecore {
namespace {

void run_serially(int64_t count, Task* task, void* context) {
  for (int64_t i = 0; i < count; ++i) task(context, i);
}

std::atomic<Runner*> runner_in_force{&run_serially};

}  // namespace

void set_runner(Runner* runner) { runner_in_force.store(runner ? runner : &run_serially); }

void run_tasks(int64_t count, Task* task, void* context) {
  runner_in_force.load(std::memory_order_relaxed)(count, task, context);
}

}  // namespace densecore
