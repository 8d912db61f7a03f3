// What every call of an op needs of its thread, whatever the program or its libraries have set.
#pragma once

#include <c10/macros/Macros.h>

#include <optional>

#include "aten/parallel_runner.h"
#include "numerics/float_environment.h"

namespace densecore {

// Warns once that the device does not follow the thread's settings.
void warn_of_foreign_environment();

// The default floating-point environment; and one thread alone in a forked child, in which OpenMP's threads no longer exist and a
// parallel region waits for them forever.
class CallEnvironment {
 public:
  CallEnvironment() {
    if (C10_UNLIKELY(floats_.foreign())) warn_of_foreign_environment();
    if (C10_UNLIKELY(in_forked_child())) serial_.emplace();
  }

 private:
  FloatEnvironment floats_;
  std::optional<SingleThread> serial_;
};

}  // namespace densecore
