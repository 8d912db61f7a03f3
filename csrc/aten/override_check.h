// Both sides of `check`: an op computed by our kernel and by another one from the same arguments and the same random state.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <optional>

#include "aten/overrides.h"

namespace densecore::overrides {

using Runner = std::function<void(torch::jit::Stack*)>;

// Runs `reference` on copies of what the op writes and then `ours` on the stack, whose results and random state remain. Returns the
// difference if any bit differs, without `call`, `module` and `tag`.
std::optional<Difference> run_both(const c10::OperatorHandle& op, torch::jit::Stack* stack, const Runner& ours, const Runner& reference);

}  // namespace densecore::overrides
