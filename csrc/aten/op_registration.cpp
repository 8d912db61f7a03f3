#include "aten/op_registration.h"

#include <c10/util/Exception.h>

#include <unordered_set>

#include "aten/host_call.h"

namespace densecore {
namespace {

std::vector<OpKernel>& kernels() {
  static std::vector<OpKernel> all;
  return all;
}

struct Composite {
  const char* name;
  c10::KernelFunction (*make)();
  c10::impl::CppSignature signature;
};

std::vector<Composite>& composites() {
  static std::vector<Composite> all;
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

c10::RegistrationHandleRAII put(const OpKernel& kernel, c10::DispatchKey key) {
  return c10::Dispatcher::singleton().registerImpl(parse_op_name(kernel.name), key, kernel.make(), kernel.signature, nullptr,
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
  static const std::unordered_set<std::string> names{"aten::convolution", "aten::_convolution", "aten::convolution_backward"};
  return names.count(name) != 0;
}

}  // namespace

const std::vector<OpKernel>& op_kernels() { return kernels(); }

c10::OperatorName parse_op_name(const std::string& name) {
  const auto dot = name.find('.');
  return dot == std::string::npos ? c10::OperatorName(name, "") : c10::OperatorName(name.substr(0, dot), name.substr(dot + 1));
}

c10::OperatorHandle find_op(const std::string& name) {
  auto op = c10::Dispatcher::singleton().findSchema(parse_op_name(name));
  TORCH_CHECK_VALUE(op.has_value(), "densecore: this torch has no operator ", name);
  return *op;
}

void detail::add_op_kernel(OpKernel kernel) { kernels().push_back(std::move(kernel)); }

detail::CompositeRegistrar::CompositeRegistrar(const char* name, c10::KernelFunction (*make)(), c10::impl::CppSignature signature) {
  composites().push_back({name, make, signature});
}

void register_device_kernels(bool use_own) {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto& all = registrations();
  std::unordered_set<std::string> own;
  for (const auto& kernel : kernels()) {
    if (!use_own && !kernel.device_only) continue;
    TORCH_INTERNAL_ASSERT(own.insert(kernel.name).second, kernel.name, " has two kernels");
    all.device.push_back(put(kernel, c10::DispatchKey::PrivateUse1));
    all.device_ops.emplace_back(kernel.name, true);
  }
  for (const auto& composite : composites()) {
    for (const auto key : {c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1}) {
      all.device.push_back(dispatcher.registerImpl(parse_op_name(composite.name), key, composite.make(), composite.signature,
                                                   nullptr, "torch_densecore"));
    }
  }
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    const std::string name = c10::toString(operator_name);
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

std::vector<std::pair<std::string, bool>> device_ops() { return registrations().device_ops; }

}  // namespace densecore
