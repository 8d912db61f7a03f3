// Registration of the kernels of csrc/aten.
//
//   at::Tensor mm(const at::Tensor& self, const at::Tensor& mat2) { ... }
//   DENSECORE_OP("aten::mm", mm);
//
// at namespace scope. The signature is the one that torch registers CPU kernels with (plain integers for SymInt); another one is
// refused when the module loads. The same kernel serves the device's dispatch key and, under emulate_cpu, the CPU key.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/infer_schema.h>

#include <string>
#include <utility>
#include <vector>

#include "aten/call_environment.h"
#include "aten/device_check.h"

namespace densecore {

struct OpKernel {
  const char* name;  // "aten::add.Tensor"
  c10::KernelFunction (*make)();
  c10::impl::CppSignature signature;
  bool device_only;
};

// All kernels registered so far, in no particular order.
const std::vector<OpKernel>& op_kernels();

namespace detail {

void add_op_kernel(OpKernel kernel);

// fn behind the check for mixed devices, in the environment that arithmetic needs.
template <auto fn, class FnType = decltype(fn)>
struct Checked;
template <auto fn, class Return, class... Args>
struct Checked<fn, Return (*)(Args...)> {
  static inline const char* name = nullptr;

  static Return call(Args... args) {
    DeviceCheck check;
    (check.see(args), ...);
    if (C10_UNLIKELY(check.suspicious())) check.decide(name);
    const CallEnvironment environment;
    return fn(std::forward<Args>(args)...);
  }
};

template <auto fn>
c10::KernelFunction make_kernel() {
  return c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN((&Checked<fn>::call)));
}

template <auto fn>
struct Registrar {
  explicit Registrar(const char* name, bool device_only) {
    Checked<fn>::name = name;
    add_op_kernel({name, &make_kernel<fn>, c10::impl::CppSignature::make<decltype(fn)>(), device_only});
  }
};

struct CompositeRegistrar {
  CompositeRegistrar(const char* name, c10::KernelFunction (*make)(), c10::impl::CppSignature signature);
};

template <auto fn>
c10::KernelFunction make_composite() {
  return c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(fn));
}

}  // namespace detail

#define DENSECORE_REGISTER(name, fn, device_only) \
  static const ::densecore::detail::Registrar<&fn> C10_CONCATENATE(densecore_op_, __COUNTER__)(name, device_only)
#define DENSECORE_OP(name, fn) DENSECORE_REGISTER(name, fn, false)
// For what makes sense on the device alone: its tensors' memory and metadata.
#define DENSECORE_DEVICE_OP(name, fn) DENSECORE_REGISTER(name, fn, true)
// For an op that torch composes of others by branching on the device: fn composes it as for a CPU tensor; autograd sees its parts.
#define DENSECORE_COMPOSITE(name, fn)                                                                     \
  static const ::densecore::detail::CompositeRegistrar C10_CONCATENATE(densecore_composite_, __COUNTER__)( \
      name, &::densecore::detail::make_composite<&fn>, c10::impl::CppSignature::make<decltype(&fn)>())

// Puts the kernels on the device's key, and the host call on every other op that has a CPU kernel. With `own` false the device-only
// kernels alone are put: every op gives this host's CPU bits. Called once, when the module loads.
void register_device_kernels(bool own);

// "aten::add.Tensor" as the dispatcher's name, and its op; an unknown name raises ValueError.
c10::OperatorName parse_op_name(const std::string& name);
c10::OperatorHandle find_op(const std::string& name);

// Every op of the device's key: its name and whether a kernel of ours serves it.
std::vector<std::pair<std::string, bool>> device_ops();

}  // namespace densecore
