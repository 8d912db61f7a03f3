#include "aten/call_environment.h"

#include <c10/util/Exception.h>

namespace densecore {

void warn_of_foreign_environment() {
  distrust_worker_environments();
  TORCH_WARN_ONCE(
      "densecore: this thread flushes subnormal numbers to zero, or does not round to nearest, or traps (torch.set_flush_denormal, "
      "fesetround, or a library built with -ffast-math). The device computes as the reference does by default, with subnormal "
      "numbers and rounding to nearest; CPU operators follow the thread's settings.");
}

}  // namespace densecore
