// Errors of the device that torch has no class for.
#pragma once

#include <string>

namespace densecore {

// Raises torch_densecore.UncertifiedOpError.
[[noreturn]] void raise_uncertified(const std::string& message);

}  // namespace densecore
