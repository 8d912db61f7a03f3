#include "aten/cpu_key.h"

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "aten/host_call.h"
#include "aten/nested_call.h"
#include "aten/op_policy.h"
#include "aten/op_registration.h"
#include "aten/overrides.h"
#include "aten/replace_kernel.h"

namespace densecore {
namespace {

using c10::DispatchKey;

// Tensors of these keys hold something else than strided elements; no kernel of ours and no declaration is about them.
constexpr DispatchKey kOtherLayouts[] = {DispatchKey::SparseCPU, DispatchKey::SparseCsrCPU, DispatchKey::QuantizedCPU,
                                         DispatchKey::MkldnnCPU, DispatchKey::NestedTensorCPU};

// Dtypes that an op may be declared exact for.
constexpr DtypeMask any_dtype() {
  DtypeMask mask = 0;
  for (const auto type : {c10::kByte, c10::kChar, c10::kShort, c10::kInt, c10::kLong, c10::kBool, c10::kHalf, c10::kBFloat16, c10::kFloat,
                          c10::kDouble, c10::kComplexHalf, c10::kComplexFloat, c10::kComplexDouble}) {
    mask |= dtype_bit(type);
  }
  return mask;
}

// Kept after the last user has left: a kernel on another thread may still be on its way to `original`.
struct Emulated {
  int depth;                         // users at this moment
  bool own;                          // a kernel of ours, not the host's under the registry's tier
  c10::SafeKernelFunction original;  // host::call goes there
  std::optional<c10::RegistrationHandleRAII> registration;
};

// All ops at once.
struct Everything {
  int depth = 0;
  bool mkldnn = false;  // the program's own setting
  std::vector<std::string> names;
  std::vector<c10::RegistrationHandleRAII> layouts;
};

// Not destroyed: the dispatcher may be gone before us when the process exits.
struct State {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Emulated>> emulated;
  std::unordered_map<DispatchKey, std::unordered_map<c10::OperatorName, c10::SafeKernelFunction>> layout_kernels;
  Everything everything;
  std::vector<c10::RegistrationHandleRAII> kept;
};

State& state() {
  static auto* all = new State;
  return *all;
}

const OpKernel* own_kernel(const std::string& name) {
  for (const auto& kernel : op_kernels()) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

// These two are functions, not functors with a state: another thread may be calling the op while its kernel is being replaced.

// What the device has for the op: the host's kernel under the registry's tier, or a kernel of ours that is not on the CPU key otherwise.
void as_on_device(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  c10::Dispatcher::singleton().redispatchBoxed(op, c10::DispatchKeySet(DispatchKey::PrivateUse1), stack);
}

const c10::SafeKernelFunction& layout_kernel(const c10::OperatorHandle& op, DispatchKey key) {
  const std::lock_guard lock(state().mutex);
  return state().layout_kernels.at(key).at(op.operator_name());
}

void check_layout(const c10::OperatorHandle& op, DispatchKey key, const torch::jit::Stack& stack) {
  const std::string name = c10::toString(op.operator_name()) + " (" + c10::toString(key) + " tensors)";
  DtypeMask dtypes = 0;
  const auto see = [&](const at::Tensor& tensor) { dtypes |= tensor.defined() ? dtype_bit(tensor.scalar_type()) : 0; };
  for (const auto& argument : torch::jit::last(stack, op.schema().arguments().size())) {
    if (argument.isTensor()) see(argument.toTensor());
    if (argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorVector()) see(tensor);
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(policy_of(name).decide(dtypes) != ServedBy::kOracle, name, " cannot be sent to the oracle");
}

void other_layout(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const DispatchKey key = keys.highestPriorityTypeId();
  if (!host::NestedCall::active()) check_layout(op, key, *stack);
  const host::NestedCall nested;
  layout_kernel(op, key).callBoxed(op, keys, stack);
}

c10::RegistrationHandleRAII put_emulation(const std::string& name) {
  const OpKernel* kernel = own_kernel(name);
  if (kernel != nullptr && !kernel->device_only) return replace_kernel(parse_op_name(name), DispatchKey::CPU, kernel->make(), kernel->signature);
  return replace_kernel(parse_op_name(name), DispatchKey::CPU, c10::KernelFunction::makeFromBoxedFunction<&as_on_device>());
}

void emulate(const std::string& name) {
  const auto op = find_op(name);
  auto& entry = state().emulated[name];
  if (!entry) {
    entry = std::make_unique<Emulated>(Emulated{0, own_kernel(name) != nullptr, op.getComputedKernelForDispatchKey(DispatchKey::CPU), std::nullopt});
  }
  if (entry->depth++ > 0) return;
  host::kernel_of(op).set_original(&entry->original);
  entry->registration.emplace(put_emulation(name));
}

void restore(const std::string& name) {
  const auto found = state().emulated.find(name);
  TORCH_CHECK_VALUE(found != state().emulated.end() && found->second->depth > 0, "densecore: ", name, " is not emulated on the CPU");
  if (--found->second->depth > 0) return;
  found->second->registration.reset();
  host::kernel_of(find_op(name)).set_original(nullptr);
}

// Ops whose CPU kernel needs no eye on it: metadata, and what moves elements of any dtype.
bool same_everywhere(const std::string& name, const OpKernel* own) {
  if (own != nullptr) return own->device_only && name != "aten::copy_";
  return (any_dtype() & ~policy_of(name).exact()) == 0;
}

std::vector<std::string> all_names() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<std::string> names;
  for (const auto& [name, own] : device_ops()) {  // includes composite ops in which torch branches on the device
    if (!same_everywhere(name, own_kernel(name))) names.push_back(name);
  }
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(operator_name);
    if (operator_name.getNamespace() == "aten" || !op || !op->hasKernelForDispatchKey(DispatchKey::CPU)) continue;
    names.push_back(c10::toString(operator_name));
  }
  return names;
}

std::vector<c10::RegistrationHandleRAII> watch_other_layouts() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::RegistrationHandleRAII> registrations;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    for (const auto key : kOtherLayouts) {
      if (!op || !op->hasKernelForDispatchKey(key)) continue;
      state().layout_kernels[key].try_emplace(name, op->getComputedKernelForDispatchKey(key));
      registrations.push_back(replace_kernel(name, key, c10::KernelFunction::makeFromBoxedFunction<&other_layout>()));
    }
  }
  return registrations;
}

void keep_below_emulation(const std::string& name, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  const std::lock_guard lock(state().mutex);
  state().kept.push_back(replace_kernel(parse_op_name(name), DispatchKey::CPU, std::move(kernel), signature));
  const auto found = state().emulated.find(name);
  if (found == state().emulated.end() || found->second->depth == 0) return;
  found->second->registration.reset();
  found->second->registration.emplace(put_emulation(name));
}

// Both return the ops that changed hands.
std::vector<std::string> start_everything() {
  const std::lock_guard lock(state().mutex);
  auto& everything = state().everything;
  if (everything.depth++ > 0) return {};
  everything.mkldnn = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  everything.names = all_names();
  for (const auto& name : everything.names) emulate(name);
  everything.layouts = watch_other_layouts();
  return everything.names;
}

std::vector<std::string> end_everything() {
  const std::lock_guard lock(state().mutex);
  auto& everything = state().everything;
  TORCH_CHECK_VALUE(everything.depth > 0, "densecore: not all ops are emulated on the CPU");
  if (--everything.depth > 0) return {};
  everything.layouts.clear();
  for (const auto& name : everything.names) restore(name);
  at::globalContext().setUserEnabledMkldnn(everything.mkldnn);
  return everything.names;
}

}  // namespace

void keep_on_cpu_key(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  keep_below_emulation(name, std::move(kernel), signature);
  overrides::emulation_changed({name});
}

void emulate_on_cpu(const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto* kernel = own_kernel(name);
    TORCH_CHECK_VALUE(kernel != nullptr && !same_everywhere(name, kernel), "densecore: ", name,
                      " has no kernel of ours that could serve the CPU");
  }
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& name : names) emulate(name);
  }
  overrides::emulation_changed(names);
}

void restore_cpu_kernels(const std::vector<std::string>& names) {
  {
    const std::lock_guard lock(state().mutex);
    for (const auto& name : names) restore(name);
  }
  overrides::emulation_changed(names);
}

void emulate_all_on_cpu() { overrides::emulation_changed(start_everything()); }

void restore_all_cpu_kernels() { overrides::emulation_changed(end_everything()); }

bool emulating_all_on_cpu() {
  const std::lock_guard lock(state().mutex);
  return state().everything.depth > 0;
}

std::vector<std::string> emulated_ops() {
  const std::lock_guard lock(state().mutex);
  std::vector<std::string> names;
  for (const auto& [name, entry] : state().emulated) {
    if (entry->depth > 0 && entry->own) names.push_back(name);
  }
  return names;
}

bool is_emulated_on_cpu(const std::string& name) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().emulated.find(name);
  return found != state().emulated.end() && found->second->depth > 0;
}

}  // namespace densecore
