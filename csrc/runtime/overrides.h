// Overrides as Python sees them: torch_densecore/overrides.
#pragma once

#include <pybind11/pybind11.h>

namespace densecore {

void bind_overrides(pybind11::module_& module);

}  // namespace densecore
