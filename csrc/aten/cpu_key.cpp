#include "aten/cpu_key.h"

#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

// Kept after the last user has left: a kernel on another thread may still be on its way to `original`.
struct Emulated {
  int depth;                         // users at this moment
  c10::SafeKernelFunction original;  // host::call from our kernel goes there
  std::optional<c10::RegistrationHandleRAII> registration;
};

// Not destroyed: the dispatcher may be gone before us when the process exits.
struct State {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Emulated>> emulated;
  std::vector<c10::RegistrationHandleRAII> kept;
};

State& state() {
  static auto* all = new State;
  return *all;
}

// The dispatcher warns, once a process, when a kernel is replaced; here that is the purpose.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

c10::RegistrationHandleRAII put(const std::string& name, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  return c10::Dispatcher::singleton().registerImpl(parse_op_name(name), c10::DispatchKey::CPU, std::move(kernel), signature, nullptr,
                                                   "torch_densecore");
}

const OpKernel& emulation_of(const std::string& name) {
  for (const auto& kernel : op_kernels()) {
    if (name == kernel.name && !kernel.device_only) return kernel;
  }
  TORCH_CHECK_VALUE(false, "densecore: ", name, " has no kernel of ours that could serve the CPU");
}

}  // namespace

void keep_on_cpu_key(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  state().kept.push_back(put(name, std::move(kernel), signature));
}

void emulate_on_cpu(const std::vector<std::string>& names) {
  for (const auto& name : names) emulation_of(name);
  const std::lock_guard lock(state().mutex);
  for (const auto& name : names) {
    const auto op = find_op(name);
    auto& entry = state().emulated[name];
    if (!entry) {
      entry = std::make_unique<Emulated>(Emulated{0, op.getComputedKernelForDispatchKey(c10::DispatchKey::CPU), std::nullopt});
    }
    if (entry->depth++ > 0) continue;
    host::kernel_of(op).set_original(&entry->original);
    const auto& kernel = emulation_of(name);
    entry->registration.emplace(put(name, kernel.make(), kernel.signature));
  }
}

void restore_cpu_kernels(const std::vector<std::string>& names) {
  const std::lock_guard lock(state().mutex);
  for (const auto& name : names) {
    const auto found = state().emulated.find(name);
    TORCH_CHECK_VALUE(found != state().emulated.end() && found->second->depth > 0, "densecore: ", name, " is not emulated on the CPU");
    if (--found->second->depth > 0) continue;
    found->second->registration.reset();
    host::kernel_of(find_op(name)).set_original(nullptr);
  }
}

std::vector<std::string> emulated_ops() {
  const std::lock_guard lock(state().mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : state().emulated) {
    if (entry->depth > 0) names.push_back(name);
  }
  return names;
}

}  // namespace densecore
