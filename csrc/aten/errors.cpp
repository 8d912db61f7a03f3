#include "aten/errors.h"

#include <c10/util/Exception.h>

namespace densecore {

// torch translates a NotImplementedError raised in C++ by its class; UncertifiedOpError derives from it in Python. The marker is
// what the Python side recognises, see torch_densecore/strictness.py.
void raise_uncertified(const std::string& message) { C10_THROW_ERROR(NotImplementedError, "UncertifiedOpError: " + message); }

}  // namespace densecore
