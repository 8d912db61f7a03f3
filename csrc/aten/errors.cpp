#include "aten/errors.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

namespace densecore {

void raise_uncertified(const std::string& message) {
  const pybind11::gil_scoped_acquire gil;
  const auto type = pybind11::module_::import("torch_densecore.strictness").attr("UncertifiedOpError");
  PyErr_SetString(type.ptr(), message.c_str());
  python_error error;
  error.persist();  // the throw may cross threads: autograd's workers
  throw error;
}

}  // namespace densecore
