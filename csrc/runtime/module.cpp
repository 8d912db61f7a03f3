// The Python module torch_densecore._C: plain functions, no tensors cross here.
#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <string>

#include "aten/blas_rules.h"
#include "aten/cpu_branches.h"
#include "aten/cpu_key.h"
#include "aten/host_draws.h"
#include "aten/op_policy.h"
#include "aten/op_profiles.h"
#include "aten/op_registration.h"
#include "aten/parallel_runner.h"
#include "aten/profile.h"
#include "numerics/dispatch.h"
#include "runtime/allocator.h"
#include "runtime/hooks.h"
#include "runtime/oracle.h"
#include "runtime/overrides.h"

namespace py = pybind11;

namespace densecore {

// DENSECORE_KERNELS=off: the device gives this host's own CPU bits, to tell what the kernels change.
bool own_kernels_wanted() {
  const char* value = std::getenv("DENSECORE_KERNELS");
  return value == nullptr || std::string(value) != "off";
}

void bind_memory(py::module_& module) {
  module.def("memory_allocated", [] { return memory_stats().allocated; });
  module.def("max_memory_allocated", [] { return memory_stats().peak; });
  module.def("allocation_count", [] { return memory_stats().allocations; });
  module.def("reset_peak_memory", &reset_peak_memory);
}

void bind_policy(py::module_& module) {
  module.def("uncertified_mode", [] { return uncertified_name(uncertified_mode()); });
  module.def("set_uncertified_mode", [](const std::string& mode) { set_uncertified_mode(parse_uncertified(mode)); });
  module.def("scalar_types", [] {
    std::vector<std::pair<std::string, int>> types;
    for (const auto type : dtypes_of(~DtypeMask{0})) types.emplace_back(c10::getDtypeNames(type).first, static_cast<int>(type));
    return types;
  });
  // A mask has the bit of each dtype's number in scalar_types.
  module.def("set_exact", [](const std::string& op, DtypeMask dtypes) { policy_of(op).set_exact(dtypes); });
  module.def("exact", [](const std::string& op) { return policy_of(op).exact(); });
}

void bind_ops(py::module_& module) {
  module.def("device_ops", &device_ops);
  module.def("emulate_on_cpu", &emulate_on_cpu);
  module.def("restore_cpu_kernels", &restore_cpu_kernels);
  module.def("emulate_all_on_cpu", &emulate_all_on_cpu);
  module.def("restore_all_cpu_kernels", &restore_all_cpu_kernels);
  module.def("emulating_all_on_cpu", &emulating_all_on_cpu);
  module.def("emulated_ops", &emulated_ops);
  module.def("own_kernels", [] {
    std::vector<std::pair<std::string, bool>> names;
    for (const auto& kernel : op_kernels()) names.emplace_back(kernel.name, kernel.device_only);
    return names;
  });
  module.def("count_host_draws", &count_host_draws);
  module.def("counting_host_draws", &counting_host_draws);
  module.def("look_for_draws", &look_for_draws);
  module.def("forget_draws", &forget_draws);
  module.def("host_draws", &host_draws);
  module.def("accept_host_draws", &accept_host_draws);
}

void bind_profile(py::module_& module) {
  module.def("profile_threads", [] { return current_profile().threads; });
  module.def("profile_lanes", [] { return current_profile().lanes; });
  // What csrc keeps of a torch_densecore.profile.Profile (torch_densecore/native_profile.py); the rules are those of blas_rules.py.
  py::class_<Profile>(module, "Profile")
      .def(py::init([](int threads, int lanes, bool fma, int contract, int lane_join, int exp, int libm,
                       const std::vector<BlasRuleFields>& blas, std::pair<int64_t, int64_t> largest, bool saturating_casts,
                       bool always_variant) {
             return Profile{.threads = threads, .lanes = lanes, .blas = make_blas_rules(blas, largest),
                            .fma = fma, .contract = static_cast<Contraction>(contract), .lane_join = static_cast<LaneJoin>(lane_join),
                            .exp = static_cast<Exponential>(exp), .libm = static_cast<Libm>(libm),
                            .saturating_casts = saturating_casts, .always_variant = always_variant};
           }),
           py::kw_only(), py::arg("threads"), py::arg("lanes"), py::arg("fma"), py::arg("contract"), py::arg("lane_join"),
           py::arg("exp"), py::arg("libm"), py::arg("blas"), py::arg("largest"), py::arg("saturating_casts"),
           py::arg("always_variant"));
  module.def("set_profile", &set_process_profile);
  module.def("set_op_profiles", &set_op_profiles);
  module.def("refuse_allocations", &refuse_allocations);
  module.def("isa", [] { return isa_name(active_isa()); });
  module.def("set_isa", [](const std::string& name) { set_isa(parse_isa(name.c_str())); });
}

}  // namespace densecore

PYBIND11_MODULE(_C, module) {
  densecore::register_hooks();
  densecore::use_torch_threads();
  densecore::register_device_kernels(densecore::own_kernels_wanted());
  densecore::register_cpu_branches();
  densecore::bind_memory(module);
  densecore::bind_policy(module);
  densecore::bind_ops(module);
  densecore::bind_profile(module);
  densecore::bind_oracle(module);
  densecore::bind_overrides(module);
}
