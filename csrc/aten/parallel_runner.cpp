// The only file compiled with OpenMP: at::parallel_for is a template over its pragmas.
#include "aten/parallel_runner.h"

#include <ATen/Parallel.h>

#include "numerics/host_threads.h"
#include "numerics/parallel.h"

namespace densecore {
namespace {

void run_on_torch_threads(int64_t count, Task* task, void* context) {
  at::parallel_for(0, count, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(context, i);
  });
}

}  // namespace

void use_torch_threads() {
  set_runner(&run_on_torch_threads);
  set_host_threads_source([] { return at::in_parallel_region() ? 1 : at::get_num_threads(); });
}

}  // namespace densecore
