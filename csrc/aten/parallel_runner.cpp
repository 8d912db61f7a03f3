// The only file compiled with OpenMP: at::parallel_for is a template over its pragmas.
#include "aten/parallel_runner.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <pthread.h>

#include "numerics/float_environment.h"
#include "numerics/host_threads.h"
#include "numerics/parallel.h"

namespace densecore {
namespace {

bool forked = false;

// Intra-op threads of this thread that have the default environment.
thread_local int trusted_workers = 1;

void run_on_torch_threads(int64_t count, Task* task, void* context) {
  at::parallel_for(0, count, 1, [=](int64_t begin, int64_t end) {
    const FloatEnvironment environment;
    for (int64_t i = begin; i < end; ++i) task(context, i);
  });
}

}  // namespace

void use_torch_threads() {
  set_runner(&run_on_torch_threads);
  set_host_threads_source([] { return at::in_parallel_region() ? 1 : at::get_num_threads(); });
  pthread_atfork(nullptr, nullptr, [] { forked = true; });
}

bool in_forked_child() { return forked; }

// at::set_num_threads would change the program's setting; get_num_threads makes sure that it has been applied to this thread.
SingleThread::SingleThread() : threads_(at::get_num_threads()) { omp_set_num_threads(1); }
SingleThread::~SingleThread() { omp_set_num_threads(threads_); }

void reset_worker_environments() {
  const int threads = at::get_num_threads();
  if (threads == trusted_workers || at::in_parallel_region()) return;
  at::parallel_for(0, threads, 1, [](int64_t, int64_t) { FloatEnvironment::reset(); });
  trusted_workers = threads;
}

void distrust_worker_environments() { trusted_workers = 1; }

}  // namespace densecore
