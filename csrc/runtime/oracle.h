// Lets Python run operators in the reference wheel for the device's `oracle` mode.
#pragma once

#include <pybind11/pybind11.h>

namespace densecore {

// Adds attach_oracle(function or None): function(name, overload, args) gets CPU tensors and returns the operator's results.
void bind_oracle(pybind11::module_& module);

}  // namespace densecore
