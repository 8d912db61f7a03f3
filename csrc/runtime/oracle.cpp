#include "runtime/oracle.h"

#include <torch/csrc/jit/python/pybind_utils.h>

#include <memory>

#include "aten/host_call.h"

namespace py = pybind11;

namespace densecore {
namespace {

void push_results(const c10::OperatorHandle& op, torch::jit::Stack* stack, const py::object& result) {
  const auto& returns = op.schema().returns();
  if (returns.empty()) return;
  if (returns.size() == 1) {
    stack->push_back(torch::jit::toIValue(result, returns[0].real_type()));
    return;
  }
  const auto results = result.cast<py::sequence>();
  TORCH_CHECK(results.size() == returns.size(), op.operator_name(), ": the oracle returned ", results.size(), " results");
  for (size_t i = 0; i < returns.size(); ++i) {
    stack->push_back(torch::jit::toIValue(py::object(results[i]), returns[i].real_type()));
  }
}

void call_python(const py::function& function, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  py::tuple arguments(count);
  for (size_t i = 0; i < count; ++i) {
    arguments[i] = torch::jit::toPyObject(std::move((*stack)[stack->size() - count + i]));
  }
  torch::jit::drop(*stack, count);
  const auto& name = op.operator_name();
  push_results(op, stack, function(name.name, name.overload_name, arguments));
}

}  // namespace

void bind_oracle(py::module_& module) {
  module.def("attach_oracle", [](const std::optional<py::function>& function) {
    if (!function) {
      host::attach_oracle({});
      return;
    }
    // Not freed: the process may end after the interpreter did.
    const auto* shared = new py::function(*function);
    host::attach_oracle([shared](const c10::OperatorHandle& op, torch::jit::Stack* stack) {
      const py::gil_scoped_acquire gil;
      call_python(*shared, op, stack);
    });
  });
}

}  // namespace densecore
