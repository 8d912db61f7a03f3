#include "aten/override_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <cstring>

#include "aten/host_call.h"
#include "runtime/allocator.h"
#include "runtime/generator.h"

namespace densecore::overrides {
namespace {

using c10::IValue;
using torch::jit::Stack;

constexpr c10::DispatchKeySet kDataKeys(
    {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor});

// Schemas call batch norm's running statistics read-only.
bool is_written(const c10::Argument& argument) {
  return (argument.alias_info() && argument.alias_info()->isWrite()) || argument.name().rfind("running_", 0) == 0;
}

template <class Visit>
void visit_tensors(const IValue& value, const Visit& visit) {
  const auto visit_one = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) visit(tensor);
  };
  if (value.isTensor()) visit_one(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit_one(tensor);
  }
}

// Copies of arguments in which everything that the op writes, and whatever shares its memory, lives in storages of its own.
class Copier {
 public:
  Copier(const c10::FunctionSchema& schema, const IValue* arguments) {
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      if (is_written(schema.arguments()[i])) visit_tensors(arguments[i], [&](const at::Tensor& tensor) { copy_storage(tensor); });
    }
  }

  IValue copy(const IValue& value) const {
    if (value.isTensor()) return copy(value.toTensor());
    if (!value.isTensorList()) return value;
    auto tensors = value.toTensorVector();
    for (auto& tensor : tensors) tensor = copy(tensor);
    return tensors;
  }

 private:
  void copy_storage(const at::Tensor& tensor) {
    const auto& storage = tensor.storage();
    if (storages_.count(storage.unsafeGetStorageImpl())) return;
    auto* allocator = tensor.is_privateuseone() ? device_allocator() : c10::GetCPUAllocator();
    c10::Storage own(c10::Storage::use_byte_size_t(), storage.nbytes(), allocator, /*resizable=*/true);
    if (storage.nbytes() != 0) std::memcpy(own.mutable_data(), storage.data(), storage.nbytes());
    storages_.emplace(storage.unsafeGetStorageImpl(), own);
  }

  at::Tensor copy(const at::Tensor& tensor) const {
    if (!tensor.defined() || !tensor.has_storage()) return tensor;
    const auto found = storages_.find(tensor.storage().unsafeGetStorageImpl());
    if (found == storages_.end()) return tensor;
    const auto backend = tensor.is_privateuseone() ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
    const auto keys = c10::DispatchKeySet(backend) | (tensor.key_set() & kDataKeys);
    auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(found->second), keys, tensor.dtype());
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return at::Tensor(std::move(impl));
  }

  std::unordered_map<c10::StorageImpl*, c10::Storage> storages_;
};

// Taken back before our side runs, so that both draw the same numbers.
class GeneratorState {
 public:
  explicit GeneratorState(const Stack& arguments) : generator_(default_generator()) {
    for (const IValue& value : arguments) {
      if (value.isGenerator()) generator_ = value.toGenerator();
    }
    if (generator_.device().type() == kDeviceType) generator_ = host_generator(generator_);
    before_ = read();
  }

  void end_of_reference() {
    after_reference_ = read();
    const std::lock_guard lock(generator_.mutex());
    generator_.set_state(before_);
  }

  bool same_now() const { return bytes_equal(read(), after_reference_); }

 private:
  at::Tensor read() const {
    const std::lock_guard lock(generator_.mutex());
    return generator_.get_state();
  }
  static bool bytes_equal(const at::Tensor& a, const at::Tensor& b) {
    return a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
  }

  mutable at::Generator generator_;
  at::Tensor before_, after_reference_;
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const auto x = host::alias(a).contiguous(), y = host::alias(b).contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool same_bits(const IValue& a, const IValue& b) {
  if (a.isTensor() && b.isTensor()) return same_bits(a.toTensor(), b.toTensor());
  if (!a.isTensorList() || !b.isTensorList()) return a == b;
  const auto x = a.toTensorVector(), y = b.toTensorVector();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const at::Tensor& one, const at::Tensor& other) { return same_bits(one, other); });
}

// The results, and then the arguments that were written.
struct Values {
  std::vector<std::string> names;
  Stack values;

  void add(std::string name, IValue value) {
    names.push_back(std::move(name));
    values.push_back(std::move(value));
  }
};

Values values_of(const c10::FunctionSchema& schema, const Stack& arguments, const Stack& results) {
  Values all;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& info = schema.returns()[i].alias_info();
    if (!(info && info->isWrite())) all.add("result " + std::to_string(i), results[i]);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (is_written(schema.arguments()[i])) all.add(schema.arguments()[i].name(), arguments[i]);
  }
  return all;
}

Stack last_values(const Stack& stack, size_t count) { return Stack(stack.end() - count, stack.end()); }

}  // namespace

std::optional<Difference> run_both(const c10::OperatorHandle& op, Stack* stack, const Runner& ours, const Runner& reference) {
  const auto& schema = op.schema();
  const Stack arguments = last_values(*stack, schema.arguments().size());
  const Copier inputs(schema, arguments.data()), other(schema, arguments.data());
  Stack before, copies;
  for (const IValue& value : arguments) {
    before.push_back(inputs.copy(value));
    copies.push_back(other.copy(value));
  }
  GeneratorState generator(arguments);
  Stack reference_results = copies;
  {
    const SideGuard guard(Side::kHost);
    reference(&reference_results);
  }
  generator.end_of_reference();
  ours(stack);  // without a guard: what it calls below may be overridden, too
  const size_t result_count = schema.returns().size();
  Values mine = values_of(schema, arguments, last_values(*stack, result_count));
  Values theirs = values_of(schema, copies, last_values(reference_results, result_count));
  bool same = generator.same_now();
  const bool same_generator = same;
  for (size_t i = 0; i < mine.values.size(); ++i) same = same && same_bits(mine.values[i], theirs.values[i]);
  if (same) return std::nullopt;
  return Difference{.op = c10::toString(op.operator_name()),
                    .inputs = std::move(before),
                    .names = std::move(mine.names),
                    .ours = std::move(mine.values),
                    .reference = std::move(theirs.values),
                    .same_generator = same_generator};
}

}  // namespace densecore::overrides
