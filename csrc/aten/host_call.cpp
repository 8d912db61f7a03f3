#include "aten/host_call.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "aten/call_environment.h"
#include "aten/device_check.h"
#include "aten/nested_call.h"
#include "numerics/parallel.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"

namespace densecore::host {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

// Properties of the data, not of the backend: an alias keeps them.
constexpr DispatchKeySet kDataKeys({DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor});

// A densecore argument beside its CPU alias.
struct Alias {
  at::Tensor device;
  at::Tensor host;
};

// Two storages over the same bytes.
struct StoragePair {
  c10::StorageImpl* device;
  c10::StorageImpl* host;
};

void copy_geometry(const c10::TensorImpl& from, c10::TensorImpl& to) {
  to.set_sizes_and_strides(from.sizes(), from.strides(), from.storage_offset());
}

at::Tensor make_tensor(c10::Storage storage, DispatchKeySet keys, const c10::TensorImpl& like) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), keys, like.dtype());
  copy_geometry(like, *impl);
  return at::Tensor(std::move(impl));
}

c10::Storage make_host_storage(c10::StorageImpl* device) {
  return c10::Storage(c10::Storage::use_byte_size_t(), device->nbytes(), host_view(device), c10::GetAllocator(c10::kCPU),
                      /*resizable=*/true);
}

at::Tensor make_alias(const c10::TensorImpl& impl, c10::Storage storage) {
  const auto keys = DispatchKeySet(DispatchKey::CPU) | (impl.key_set() & kDataKeys);
  at::Tensor host = make_tensor(std::move(storage), keys, impl);
  if (impl.is_wrapped_number()) host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

// One call of the host's kernel: turns the arguments on the stack into host tensors, and the results back.
class Call {
 public:
  explicit Call(const c10::OperatorHandle& op) : op_(op) {}

  void to_host(IValue& value) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined()) value = to_host(tensor);
    } else if (value.isTensorList()) {
      auto tensors = value.toTensorVector();
      for (auto& tensor : tensors) tensor = tensor.defined() ? to_host(tensor) : tensor;
      value = std::move(tensors);
    } else if (value.isList()) {
      optional_tensors_to_host(value);
    } else if (value.isDevice()) {
      device_to_host(value);
    } else if (value.isGenerator()) {
      generator_to_host(value);
    }
  }

  void to_device(IValue& value) {
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined()) value = to_device(tensor);
    } else if (value.isTensorList()) {
      auto tensors = value.toTensorVector();
      for (auto& tensor : tensors) tensor = tensor.defined() ? to_device(tensor) : tensor;
      value = std::move(tensors);
    }
  }

  void check_devices() const {
    if (C10_UNLIKELY(host_generator_ && devices_.device)) raise_generator_device();
    if (C10_UNLIKELY(devices_.suspicious())) devices_.decide(c10::toString(op_.operator_name()));
  }

  // Whether torch may divide the work among threads.
  bool parallel() const { return largest_ > kGrainSize; }

  // A kernel may resize what it writes to: gives the densecore tensors their aliases' geometry and memory.
  void write_back() {
    for (const auto& [device, host] : storages_) {
      if (C10_UNLIKELY(host->data() != device->data())) {
        device->set_data_ptr_noswap(device_view(host));
        device->set_nbytes(host->nbytes());
      }
    }
    for (const auto& alias : aliases_) {
      auto& device = *alias.device.unsafeGetTensorImpl();
      const auto& host = *alias.host.unsafeGetTensorImpl();
      if (C10_UNLIKELY(device.sizes() != host.sizes() || device.strides() != host.strides() ||
                       device.storage_offset() != host.storage_offset())) {
        copy_geometry(host, device);
      }
    }
  }

 private:
  at::Tensor to_host(const at::Tensor& tensor) {
    devices_.see(tensor);
    largest_ = std::max(largest_, tensor.numel());
    if (!tensor.is_privateuseone()) {
      host_arguments_.push_back(tensor.unsafeGetTensorImpl());
      return tensor;
    }
    for (const auto& alias : aliases_) {
      if (alias.device.is_same(tensor)) return alias.host;
    }
    const auto& impl = *tensor.unsafeGetTensorImpl();
    at::Tensor host = make_alias(impl, host_storage(impl));
    aliases_.push_back({tensor, host});
    return host;
  }

  void generator_to_host(IValue& value) {
    const at::Generator generator = value.toGenerator();
    devices_.see(std::optional(generator));
    if (generator.device().type() == kDeviceType) {
      value = host_generator(generator);
    } else {
      host_generator_ = true;
    }
  }

  [[noreturn]] void raise_generator_device() const {
    TORCH_CHECK(false, "Expected a 'densecore' device type for generator but found 'cpu' (when checking arguments of ",
                c10::toString(op_.operator_name()), ")");
  }

  // Arguments that share a storage share the alias's too: kernels test for overlap.
  c10::Storage host_storage(const c10::TensorImpl& impl) {
    auto* device = impl.unsafe_storage().unsafeGetStorageImpl();
    for (const auto& pair : storages_) {
      if (pair.device == device) {
        return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(pair.host));
      }
    }
    c10::Storage storage = make_host_storage(device);
    storages_.push_back({device, storage.unsafeGetStorageImpl()});
    return storage;
  }

  void optional_tensors_to_host(IValue& value) {
    const auto list = value.toListRef();
    if (std::none_of(list.begin(), list.end(), [](const IValue& item) { return item.isTensor(); })) return;
    c10::List<std::optional<at::Tensor>> tensors;
    tensors.reserve(list.size());
    for (const IValue& item : list) {
      if (item.isNone() || !item.toTensor().defined()) {
        tensors.push_back(std::nullopt);
      } else {
        tensors.push_back(to_host(item.toTensor()));
      }
    }
    value = std::move(tensors);
  }

  void device_to_host(IValue& value) {
    const c10::Device device = value.toDevice();
    if (device.type() == kDeviceType) {
      check_device_index(device);
      devices_.device = true;
      value = c10::Device(c10::kCPU);
    } else if (device.is_cpu()) {
      results_stay_on_host_ = true;
    }
  }

  at::Tensor to_device(const at::Tensor& host) {
    for (const auto& alias : aliases_) {
      if (alias.host.is_same(host)) return alias.device;
    }
    const auto* impl = host.unsafeGetTensorImpl();
    const bool was_argument = std::find(host_arguments_.begin(), host_arguments_.end(), impl) != host_arguments_.end();
    // Without a densecore argument the call is one of the CPU's, under emulate_cpu.
    if (was_argument || results_stay_on_host_ || !devices_.device || !host.is_cpu()) return host;
    TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided, c10::toString(op_.operator_name()), ": layout ",
                                host.layout(), " is not supported on device 'densecore'");
    TORCH_CHECK_NOT_IMPLEMENTED(!host.is_quantized(), c10::toString(op_.operator_name()),
                                ": quantized tensors are not supported on device 'densecore'");
    auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    for (const auto& pair : storages_) {
      if (pair.host == storage) return view_of_argument(pair, *impl);
    }
    const auto keys = DispatchKeySet(DispatchKey::PrivateUse1) | (impl->key_set() & kDataKeys);
    return make_tensor(device_storage(storage), keys, *impl);
  }

  // A view has its base's keys: an inference tensor's view is one too, a normal tensor's view is not.
  at::Tensor view_of_argument(const StoragePair& pair, const c10::TensorImpl& host) const {
    const auto base = std::find_if(aliases_.begin(), aliases_.end(), [&](const Alias& alias) {
      return alias.device.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == pair.device;
    });
    const auto keys = (base->device.key_set() - kDataKeys) | (host.key_set() & kDataKeys);
    c10::Storage storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(pair.device));
    auto impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage), keys, host.dtype());
    copy_geometry(host, *impl);
    return at::Tensor(std::move(impl));
  }

  // Results that share a storage share the device's too.
  c10::Storage device_storage(c10::StorageImpl* host) {
    for (const auto& pair : results_) {
      if (pair.host == host) return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(pair.device));
    }
    c10::Storage storage(c10::Storage::use_byte_size_t(), host->nbytes(), device_view(host), device_allocator(),
                         /*resizable=*/true);
    results_.push_back({storage.unsafeGetStorageImpl(), host});
    return storage;
  }

  const c10::OperatorHandle& op_;
  DeviceCheck devices_;
  bool results_stay_on_host_ = false;
  bool host_generator_ = false;
  int64_t largest_ = 0;
  c10::SmallVector<Alias, 6> aliases_;
  c10::SmallVector<StoragePair, 6> storages_;
  c10::SmallVector<StoragePair, 2> results_;
  c10::SmallVector<const c10::TensorImpl*, 2> host_arguments_;
};

bool is_dtype_argument(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

DtypeMask dtypes_in(const IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    // A Python number takes the tensors' dtype; its own decides nothing.
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return 0;
    return dtype_bit(tensor.scalar_type());
  }
  DtypeMask mask = 0;
  if (value.isList()) {
    for (const IValue& item : value.toListRef()) {
      if (!item.isTensor()) continue;
      mask |= dtypes_in(item);
    }
  }
  return mask;
}

OracleCall& oracle_call() {
  static auto* call = new OracleCall;
  return *call;
}

}  // namespace

void attach_oracle(OracleCall call) {
  set_oracle_attached(static_cast<bool>(call));
  oracle_call() = std::move(call);
}

Kernel::Kernel(const c10::OperatorHandle& op) : policy_(policy_of(c10::toString(op.operator_name()))) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_dtype_argument(arguments[i])) dtype_arguments_.push_back(i);
  }
}

DtypeMask Kernel::dtypes(const c10::OperatorHandle& op, const torch::jit::Stack& stack) const {
  const size_t count = op.schema().arguments().size();
  const auto* arguments = stack.data() + (stack.size() - count);
  DtypeMask mask = 0;
  for (size_t i = 0; i < count; ++i) mask |= dtypes_in(arguments[i]);
  for (const size_t i : dtype_arguments_) {
    if (!arguments[i].isNone()) mask |= dtype_bit(arguments[i].toScalarType());
  }
  return mask;
}

void Kernel::operator()(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  if (C10_UNLIKELY(NestedCall::active())) return run(op, stack);
  const DtypeMask used = dtypes(op, *stack);
  run(op, stack, C10_LIKELY(policy_.allows(used)) ? ServedBy::kHost : policy_.decide(used));
}

void Kernel::call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) const {
  constexpr auto keys = DispatchKeySet(DispatchKey::CPU);
  const at::AutoDispatchBelowADInplaceOrView guard;
  try {
    if (const auto* original = original_.load(std::memory_order_acquire)) {
      original->callBoxed(op, keys, stack);
    } else {
      c10::Dispatcher::singleton().redispatchBoxed(op, keys, stack);
    }
  } catch (const c10::Error& error) {
    // what the CPU allocator says; on a device this has a class of its own
    const std::string message = error.what_without_backtrace();
    TORCH_CHECK_WITH(OutOfMemoryError, message.find("DefaultCPUAllocator") == std::string::npos, "densecore out of memory in ",
                     op.operator_name(), ": ", message);
    throw;
  }
}

void Kernel::run(const c10::OperatorHandle& op, torch::jit::Stack* stack, ServedBy server) const {
  Call call(op);
  const size_t argument_count = op.schema().arguments().size();
  for (auto& value : torch::jit::last(*stack, argument_count)) call.to_host(const_cast<IValue&>(value));
  call.check_devices();
  const NestedCall nested;
  if (C10_LIKELY(server == ServedBy::kHost)) {
    const CallEnvironment environment;
    if (call.parallel()) reset_worker_environments();
    call_cpu_kernel(op, stack);
  } else {
    oracle_call()(op, stack);
  }
  call.write_back();
  const size_t result_count = op.schema().returns().size();
  for (auto& value : torch::jit::last(*stack, result_count)) call.to_device(const_cast<IValue&>(value));
}

at::Tensor alias(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor;
  const auto& impl = *tensor.unsafeGetTensorImpl();
  return make_alias(impl, make_host_storage(impl.unsafe_storage().unsafeGetStorageImpl()));
}

Kernel& kernel_of(const c10::OperatorHandle& op) {
  static auto* mutex = new std::mutex;
  static auto* kernels = new std::unordered_map<c10::OperatorName, std::unique_ptr<Kernel>>;
  const std::lock_guard lock(*mutex);
  auto& kernel = (*kernels)[op.operator_name()];
  if (!kernel) kernel = std::make_unique<Kernel>(op);
  return *kernel;
}

c10::KernelFunction dispatcher_kernel(const c10::OperatorHandle& op) {
  struct Entry final : c10::OperatorKernel {
    explicit Entry(const Kernel& kernel) : kernel(kernel) {}
    void operator()(const c10::OperatorHandle& op, DispatchKeySet, torch::jit::Stack* stack) { kernel(op, stack); }
    const Kernel& kernel;
  };
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Entry>(kernel_of(op)));
}

void fallback(const c10::OperatorHandle& op, DispatchKeySet, torch::jit::Stack* stack) { kernel_of(op)(op, stack); }

void detail::raise_disagreement(const c10::OperatorHandle& op) {
  TORCH_INTERNAL_ASSERT(false, "densecore: ", op.operator_name(), ": torch's CPU kernel accepts arguments that the densecore kernel rejects");
}

}  // namespace densecore::host
