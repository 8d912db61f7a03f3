// Parallel regions on the OpenMP threads that torch has: libgomp's on Linux, LLVM's libomp's on macOS.
#include "aten/parallel_runner.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>
#include <pthread.h>

#include <atomic>
#include <exception>

#include "numerics/float_environment.h"
#include "numerics/host_threads.h"
#include "numerics/parallel.h"

// What gcc makes of `#pragma omp parallel`; libomp has it too. As plain functions they need neither omp.h nor -fopenmp, whose code by
// clang would want libomp on Linux as well. They are resolved when the module is loaded.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
void omp_set_num_threads(int);
}

namespace densecore {
namespace {

bool forked = false;

// Intra-op threads of this thread that have the default environment.
thread_local int trusted_workers = 1;

// A region over [0, count): each thread calls body(begin, end) once, for its share.
template <class Body>
class Region {
 public:
  Region(int64_t count, const Body& body) : count_(count), body_(body) {}

  void run() {
    GOMP_parallel([](void* region) { static_cast<Region*>(region)->share(); }, this, 0, 0);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void share() {
    const int thread = omp_get_thread_num();
    const int64_t size = divup(count_, std::min<int64_t>(count_, omp_get_num_threads()));
    const int64_t begin = thread * size, end = std::min(count_, begin + size);
    if (begin >= end) return;
    const at::internal::ThreadIdGuard id(thread);
    const c10::ParallelGuard inside(true);
    try {
      body_(begin, end);
    } catch (...) {  // may not leave the region
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  const int64_t count_;
  const Body& body_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

void run_on_torch_threads(int64_t count, Task* task, void* context) {
  const auto body = [=](int64_t begin, int64_t end) {
    const FloatEnvironment environment;
    for (int64_t i = begin; i < end; ++i) task(context, i);
  };
  if (count <= 1 || at::in_parallel_region() || at::get_num_threads() == 1) return body(0, count);
  Region(count, body).run();
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
  const auto reset = [](int64_t, int64_t) { FloatEnvironment::reset(); };
  Region(threads, reset).run();
  trusted_workers = threads;
}

void distrust_worker_environments() { trusted_workers = 1; }

}  // namespace densecore
