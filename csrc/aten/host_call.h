// Calls the host's CPU kernel of an op on densecore tensors without copying: device memory is host memory, so each tensor is
// given a CPU alias of the same bytes, and what comes back is given the device's name.
//
//   return host::call<at::_ops::mm>(self, mat2);     // a dtype this kernel does not claim: the registry's tier decides
//   return host::error<at::_ops::mm>(self, mat2);    // invalid arguments: torch's own exception
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "aten/op_policy.h"

namespace densecore::host {

// The host's kernel of one op; takes a stack of densecore or CPU tensors.
class Kernel {
 public:
  explicit Kernel(const c10::OperatorHandle& op);
  // Asks the registry's tier, then runs.
  void operator()(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;
  // Runs whatever the tier says.
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack, ServedBy server = ServedBy::kHost) const;

  // While the CPU key carries a kernel of ours (emulate_cpu): the kernel that torch had there. Otherwise nullptr.
  void set_original(const c10::SafeKernelFunction* original) { original_.store(original, std::memory_order_release); }

 private:
  void call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;
  // The dtypes of the tensors and of the dtype arguments.
  DtypeMask dtypes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const;

  OpPolicy& policy_;
  std::vector<size_t> dtype_arguments_;
  std::atomic<const c10::SafeKernelFunction*> original_{nullptr};
};

// Runs an op in the reference wheel: takes a stack of CPU tensors, writes into them, leaves CPU results.
using OracleCall = std::function<void(const c10::OperatorHandle&, torch::jit::Stack*)>;
// Gives the mode `oracle` its runner; an empty function takes it away.
void attach_oracle(OracleCall call);

// The one Kernel of an op, made at first use; it lives as long as the process.
Kernel& kernel_of(const c10::OperatorHandle& op);

// A CPU tensor over the same bytes; a CPU tensor is returned as it is. For a binding that calls ATen's CPU functions itself.
at::Tensor alias(const at::Tensor& tensor);

// The dispatcher's kernel that calls `kernel_of(op)`.
c10::KernelFunction dispatcher_kernel(const c10::OperatorHandle& op);

// Runs the host's CPU kernel of any op on a stack of arguments, for ops that are not known when the module loads.
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

namespace detail {

// After the host accepted what the binding rejected.
[[noreturn]] void raise_disagreement(const c10::OperatorHandle& op);

template <class Op>
const c10::OperatorHandle& handle() {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
  return op;
}

template <class Op>
void call_entry(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  static const Kernel& kernel = kernel_of(op);
  kernel(op, stack);
}

template <class Op>
void run_entry(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  static const Kernel& kernel = kernel_of(op);
  kernel.run(op, stack);
}

// Sizes are plain integers here, also where the op's public signature has SymInt.
template <class Op>
using Signature = typename c10::fn_remove_symint<typename Op::schema>::type;

template <class Op, class... Args>
decltype(auto) call_boxed(const c10::BoxedKernel& boxed, Args&&... args) {
  return c10::impl::BoxedKernelWrapper<Signature<Op>>::call(boxed, handle<Op>(), c10::DispatchKeySet(),
                                                            std::forward<Args>(args)...);
}

}  // namespace detail

// The host's kernel under the registry's tier: it runs for a dtype declared exact, else warns or raises UncertifiedOpError.
template <class Op, class... Args>
decltype(auto) call(Args&&... args) {
  static const auto boxed = c10::BoxedKernel::makeFromFunction<&detail::call_entry<Op>>();
  return detail::call_boxed<Op>(boxed, std::forward<Args>(args)...);
}

// The host's kernel whatever its tier. For what has no arithmetic: data movement, metadata, torch's own errors.
template <class Op, class... Args>
decltype(auto) run(Args&&... args) {
  static const auto boxed = c10::BoxedKernel::makeFromFunction<&detail::run_entry<Op>>();
  return detail::call_boxed<Op>(boxed, std::forward<Args>(args)...);
}

// Lets the host's kernel raise torch's own exception for arguments that a binding found invalid.
template <class Op, class... Args>
[[noreturn]] void error(Args&&... args) {
  run<Op>(std::forward<Args>(args)...);
  detail::raise_disagreement(detail::handle<Op>());
}

}  // namespace densecore::host
