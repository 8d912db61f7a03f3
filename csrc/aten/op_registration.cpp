#include "aten/op_registration.h"

#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "aten/host_call.h"

namespace densecore {
namespace {

std::vector<OpKernel>& kernels() {
  static std::vector<OpKernel> all;
  return all;
}

struct Registrations {
  std::vector<c10::RegistrationHandleRAII> device;
  std::vector<std::pair<std::string, bool>> device_ops;
};

// Not destroyed: the dispatcher may be gone before us when the process exits.
Registrations& registrations() {
  static auto* all = new Registrations;
  return *all;
}

c10::OperatorName parse_name(const std::string& name) {
  const auto dot = name.find('.');
  return dot == std::string::npos ? c10::OperatorName(name, "") : c10::OperatorName(name.substr(0, dot), name.substr(dot + 1));
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

c10::OperatorHandle find_op(const std::string& name) {
  auto op = c10::Dispatcher::singleton().findSchema(parse_name(name));
  TORCH_CHECK_VALUE(op.has_value(), "densecore: this torch has no operator ", name);
  return *op;
}

const OpKernel& find_kernel(const std::string& name) {
  for (const auto& kernel : kernels()) {
    if (name == kernel.name) return kernel;
  }
  TORCH_CHECK_VALUE(false, "densecore: ", name, " has no kernel of its own");
}

c10::RegistrationHandleRAII put(const OpKernel& kernel, c10::DispatchKey key) {
  return c10::Dispatcher::singleton().registerImpl(parse_name(kernel.name), key, kernel.make(), kernel.signature, nullptr,
                                                   "torch_densecore");
}

// A structured op's functional and in-place forms reach the .out kernel through torch's composite; a host call of their own
// would bypass a kernel of ours that is registered on .out alone.
bool composite_reaches_own_kernel(const c10::OperatorHandle& op, const std::unordered_set<std::string>& own) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) return false;
  const auto& name = op.operator_name();
  std::string base = name.name;
  if (base.back() == '_') base.pop_back();
  const std::string overload = name.overload_name;
  for (const std::string& out : {std::string("out"), overload + "_out"}) {
    if (own.count(base + "." + out)) return true;
  }
  return false;
}

// Composite ops in which torch branches on the device: the host call takes a CPU tensor's branch.
bool branches_on_device(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::convolution", "aten::_convolution", "aten::convolution_backward", "aten::copy_"};
  return names.count(name) != 0;
}

}  // namespace

const std::vector<OpKernel>& op_kernels() { return kernels(); }

void detail::add_op_kernel(OpKernel kernel) { kernels().push_back(std::move(kernel)); }

void register_device_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto& all = registrations();
  std::unordered_set<std::string> own;
  for (const auto& kernel : kernels()) {
    TORCH_INTERNAL_ASSERT(own.insert(kernel.name).second, kernel.name, " has two kernels");
    all.device.push_back(put(kernel, c10::DispatchKey::PrivateUse1));
    all.device_ops.emplace_back(kernel.name, true);
  }
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    const std::string name = full_name(operator_name);
    if (operator_name.getNamespace() != "aten" || own.count(name)) continue;
    const auto op = dispatcher.findSchema(operator_name);
    if (!op || !(op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || branches_on_device(name))) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) || composite_reaches_own_kernel(*op, own)) continue;
    all.device.push_back(dispatcher.registerImpl(operator_name, c10::DispatchKey::PrivateUse1, host::dispatcher_kernel(*op),
                                                 std::nullopt, nullptr, "torch_densecore host call"));
    all.device_ops.emplace_back(name, false);
  }
  all.device.push_back(dispatcher.registerFallback(
      c10::DispatchKey::PrivateUse1, c10::KernelFunction::makeFromBoxedFunction<&host::fallback>(), "torch_densecore"));
  all.device.push_back(dispatcher.registerFallback(c10::DispatchKey::AutocastPrivateUse1,
                                                   c10::KernelFunction::makeFallthrough(), "torch_densecore"));
}

namespace {

struct Emulated {
  int depth;
  c10::SafeKernelFunction original;
  std::optional<c10::RegistrationHandleRAII> registration;
};

struct EmulatedOps {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Emulated>> by_name;
};

EmulatedOps& emulated_ops() {
  static auto* all = new EmulatedOps;
  return *all;
}

// The dispatcher warns, once a process, when a kernel is replaced; here that is the purpose.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void emulate_on_cpu(const std::vector<std::string>& names) {
  for (const auto& name : names) find_kernel(name);
  auto& all = emulated_ops();
  const std::lock_guard lock(all.mutex);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  for (const auto& name : names) {
    auto& entry = all.by_name[name];
    if (entry) {
      ++entry->depth;
      continue;
    }
    const auto op = find_op(name);
    entry = std::make_unique<Emulated>(Emulated{1, op.getComputedKernelForDispatchKey(c10::DispatchKey::CPU), std::nullopt});
    host::kernel_of(op).set_original(&entry->original);
    entry->registration.emplace(put(find_kernel(name), c10::DispatchKey::CPU));
  }
}

void restore_cpu_kernels(const std::vector<std::string>& names) {
  auto& all = emulated_ops();
  const std::lock_guard lock(all.mutex);
  for (const auto& name : names) {
    const auto entry = all.by_name.find(name);
    TORCH_CHECK_VALUE(entry != all.by_name.end(), "densecore: ", name, " is not emulated on the CPU");
    if (--entry->second->depth > 0) continue;
    entry->second->registration.reset();
    host::kernel_of(find_op(name)).set_original(nullptr);
    all.by_name.erase(entry);
  }
}

std::vector<std::pair<std::string, bool>> device_ops() { return registrations().device_ops; }

}  // namespace densecore
