#include "runtime/overrides.h"

#include "aten/overrides.h"

#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "aten/module_path.h"

namespace py = pybind11;

namespace densecore {
namespace {

using namespace overrides;

py::list to_python(torch::jit::Stack values) {
  py::list list;
  for (auto& value : values) list.append(torch::jit::toPyObject(std::move(value)));
  return list;
}

// Calls a Python function from a kernel. Its exception may have to cross threads: autograd's workers.
template <class MakeArguments>
void call(const py::function& function, const MakeArguments& make_arguments) {
  const py::gil_scoped_acquire gil;
  try {
    function(*make_arguments());
  } catch (py::error_already_set& raised) {
    raised.restore();
    python_error error;
    error.persist();
    throw error;
  }
}

void attach_python(const py::function& refuse, const py::function& compare, const py::function& observe) {
  // Not freed: the process may end after the interpreter did.
  const auto *refuser = new py::function(refuse), *comparer = new py::function(compare), *observer = new py::function(observe);
  attach({.refuse =
              [refuser](const std::string& op, int64_t tag) { call(*refuser, [&] { return py::make_tuple(op, tag); }); },
          .compare =
              [comparer](Difference found) {
                call(*comparer, [&] {
                  return py::make_tuple(found.op, found.call, found.module, found.tag, to_python(std::move(found.inputs)), found.names,
                                        to_python(std::move(found.ours)), to_python(std::move(found.reference)), found.same_generator);
                });
              },
          .observe =
              [observer](const std::string& op, torch::jit::Stack arguments, torch::jit::Stack results) {
                call(*observer, [&] { return py::make_tuple(op, to_python(std::move(arguments)), to_python(std::move(results))); });
              }});
}

void bind_tables(py::module_& module) {
  py::class_<Counter, std::shared_ptr<Counter>>(module, "OverrideCounter")
      .def(py::init<>())
      .def_property_readonly("value", [](const Counter& counter) { return counter.value.load(); });
  py::class_<ProfileSlot, std::shared_ptr<ProfileSlot>>(module, "ProfileSlot").def(py::init<>()).def("set", &ProfileSlot::set);
  py::class_<Choice>(module, "OverrideChoice")
      .def(py::init([](std::vector<std::string> scopes, const std::string& mode, const std::string& reference, std::shared_ptr<ProfileSlot> profile,
                       std::vector<std::shared_ptr<Counter>> counters, int64_t tag) {
             return Choice{std::move(scopes), parse_mode(mode), parse_mode(reference), std::move(profile), std::move(counters), tag};
           }),
           py::kw_only(), py::arg("scopes"), py::arg("mode"), py::arg("reference"), py::arg("profile"), py::arg("counters"), py::arg("tag"));
  // Python attaches the rules that a table was made of.
  py::class_<Table, std::shared_ptr<Table>>(module, "OverrideTable", py::dynamic_attr())
      .def(py::init<>())
      .def("add", &Table::add)
      .def("install", &Table::install)
      .def("uninstall", &Table::uninstall);
}

}  // namespace

void bind_overrides(py::module_& module) {
  bind_tables(module);
  module.def("set_process_overrides", [](std::shared_ptr<Table> table) { set_process_table(std::move(table)); });
  module.def("exchange_thread_overrides", [](std::shared_ptr<Table> table) {
    return std::const_pointer_cast<Table>(exchange_thread_table(std::move(table)));
  });
  module.def("thread_overrides", [] { return std::const_pointer_cast<Table>(thread_table()); });
  module.def("attach_overrides", &attach_python, py::kw_only(), py::arg("refuse"), py::arg("compare"), py::arg("observe"));
  module.def("overridden_calls", &overridden_calls);
  module.def("overridable_ops", &overridable_ops);
  module.def("track_modules", &track_modules);
  module.def("set_module_path", &set_module_path);
  module.def("current_module_path", &current_module_path);
}

}  // namespace densecore
