#include "aten/overrides.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <c10/core/SafePyObject.h>
#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <shared_mutex>
#include <unordered_set>

#include "aten/cpu_key.h"
#include "aten/host_call.h"
#include "aten/module_path.h"
#include "aten/op_registration.h"
#include "aten/override_check.h"
#include "aten/profile.h"
#include "aten/replace_kernel.h"

namespace densecore::overrides {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;
using torch::jit::Stack;

class OverriddenOp {
 public:
  explicit OverriddenOp(const OperatorHandle& op) : op_(op), name_(c10::toString(op.operator_name())), host_(host::kernel_of(op)) {}

  const std::string& name() const { return name_; }
  const host::Kernel& host() const { return host_; }
  int64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  int64_t next_call() { return calls_.fetch_add(1, std::memory_order_relaxed); }

  // The kernel that the key has without the handler.
  void call_ours(DispatchKey key, DispatchKeySet keys, Stack* stack) const {
    const auto& kernel = key == DispatchKey::CPU ? cpu_.original : device_.original;
    kernel->callBoxed(op_, keys, stack);
  }

  void install();
  void uninstall();
  void follow_emulation();

 private:
  // `original` stays when the handler leaves: a call on another thread may be on its way to it.
  struct Key {
    std::optional<c10::SafeKernelFunction> original;
    std::optional<c10::RegistrationHandleRAII> registration;
  };
  void put(Key& key, DispatchKey dispatch_key, c10::KernelFunction handler);

  const OperatorHandle op_;
  const std::string name_;
  const host::Kernel& host_;
  std::atomic<int64_t> calls_{0};
  int users_ = 0;
  Key device_, cpu_;
};

namespace {

enum Below : int { kNothing, kOurs, kHost };
thread_local int below = kNothing;

// Not destroyed: the dispatcher and autograd's threads may end after us.
struct State {
  std::shared_mutex mutex;
  std::unordered_map<c10::OperatorName, std::unique_ptr<OverriddenOp>> ops;
  std::mutex keys;  // held while handlers come and go
  std::vector<std::shared_ptr<const Table>> process_tables;  // all there ever were: a call may be reading one
};

State& state() {
  static auto* all = new State;
  return *all;
}

std::atomic<const Table*> process_table{nullptr};

Callbacks& callbacks() {
  static auto* all = new Callbacks;
  return *all;
}

OverriddenOp& op_of(const OperatorHandle& op) {
  auto& all = state();
  {
    const std::shared_lock lock(all.mutex);
    const auto found = all.ops.find(op.operator_name());
    if (found != all.ops.end()) return *found->second;
  }
  auto made = std::make_unique<OverriddenOp>(op);
  const std::unique_lock lock(all.mutex);
  return *all.ops.emplace(op.operator_name(), std::move(made)).first->second;
}

// at::ThreadLocalState carries Python objects by name from a thread to autograd's workers and to torch.jit.fork. This one holds
// no Python object but our table.
struct ThreadTable : c10::SafePyObject {
  explicit ThreadTable(std::shared_ptr<const Table> table) : c10::SafePyObject(nullptr, nullptr), table(std::move(table)) {}
  const std::shared_ptr<const Table> table;
};
const std::string kThreadTable = "torch_densecore.overrides";

// "transformer.h.3" is in the scopes "transformer.h.3", "transformer.h.*" and "transformer": a module is within its parents.
bool within(const std::string& scope, const std::string& path) {
  if (path.empty()) return false;
  for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
    if (::fnmatch(scope.c_str(), path.substr(0, end).c_str(), 0) == 0) return true;
    if (end == std::string::npos) return false;
  }
}

Stack arguments_of(const OperatorHandle& op, const Stack& stack) {
  return Stack(stack.end() - op.schema().arguments().size(), stack.end());
}

void run_other(const OverriddenOp& entry, Mode mode, const OperatorHandle& op, Stack* stack) {
  entry.host().run(op, stack, mode == Mode::kOracle ? ServedBy::kOracle : ServedBy::kHost);
}

void run_ours(const OverriddenOp& entry, const Choice& choice, DispatchKey key, DispatchKeySet keys, Stack* stack) {
  if (!choice.profile) return entry.call_ours(key, keys, stack);
  const auto profile = choice.profile->get();
  const ProfileGuard guard(*profile);
  entry.call_ours(key, keys, stack);
}

void run_checked(const OverriddenOp& entry, const Choice& choice, int64_t call, const OperatorHandle& op, Stack* stack,
                 const Runner& ours) {
  auto difference = run_both(op, stack, ours, [&](Stack* copy) { run_other(entry, choice.reference, op, copy); });
  if (!difference) return;
  difference->call = call;
  difference->module = current_module_path();
  difference->tag = choice.tag;
  const SideGuard guard(Side::kOurs);  // what the report calls is no part of the program
  callbacks().compare(std::move(*difference));
}

void run_choice(OverriddenOp& entry, const Choice& choice, DispatchKey key, const OperatorHandle& op, DispatchKeySet keys,
                Stack* stack) {
  for (const auto& counter : choice.counters) counter->value.fetch_add(1, std::memory_order_relaxed);
  const int64_t call = entry.next_call();
  const auto ours = [&](Stack* values) { run_ours(entry, choice, key, keys, values); };
  switch (choice.mode) {
    case Mode::kDensecore:
      return ours(stack);
    case Mode::kHost:
    case Mode::kOracle: {
      const SideGuard guard(Side::kHost);
      return run_other(entry, choice.mode, op, stack);
    }
    case Mode::kCheck:
      return run_checked(entry, choice, call, op, stack, ours);
    case Mode::kObserve: {
      Stack arguments = arguments_of(op, *stack);
      ours(stack);
      const size_t results = op.schema().returns().size();
      const SideGuard guard(Side::kOurs);  // what the observer calls is no part of the program
      return callbacks().observe(entry.name(), std::move(arguments), Stack(stack->end() - results, stack->end()));
    }
    case Mode::kError:
      callbacks().refuse(entry.name(), choice.tag);
  }
  TORCH_INTERNAL_ASSERT(false, "densecore: ", entry.name(), ": the override did not raise");
}

template <DispatchKey key>
void handle(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  auto& entry = op_of(op);
  if (below == kHost && key == DispatchKey::CPU) return entry.host().run(op, stack);
  if (below != kNothing) return entry.call_ours(key, keys, stack);
  const auto own = thread_table();
  const Table* table = own ? own.get() : process_table.load(std::memory_order_acquire);
  const Choice* choice = table ? table->find(&entry) : nullptr;
  if (choice) return run_choice(entry, *choice, key, op, keys, stack);
  entry.call_ours(key, keys, stack);
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& result) { return result.alias_info() && !result.alias_info()->isWrite(); });
}

// An emulated op without one goes from the CPU's key to the device's, and meets the handler there.
bool has_own_kernel(const std::string& name) {
  const auto& kernels = op_kernels();
  return std::any_of(kernels.begin(), kernels.end(), [&](const OpKernel& kernel) { return name == kernel.name; });
}

std::unordered_set<std::string> device_only_ops() {
  std::unordered_set<std::string> names;
  for (const auto& kernel : op_kernels()) {
    if (kernel.device_only) names.insert(kernel.name);
  }
  return names;
}

}  // namespace

void OverriddenOp::put(Key& key, DispatchKey dispatch_key, c10::KernelFunction handler) {
  key.original.emplace(op_.getComputedKernelForDispatchKey(dispatch_key));
  key.registration.emplace(replace_kernel(op_.operator_name(), dispatch_key, std::move(handler)));
}

void OverriddenOp::install() {
  if (users_++ > 0) return;
  put(device_, DispatchKey::PrivateUse1, c10::KernelFunction::makeFromBoxedFunction<&handle<DispatchKey::PrivateUse1>>());
  follow_emulation();
}

void OverriddenOp::uninstall() {
  if (--users_ > 0) return;
  device_.registration.reset();
  cpu_.registration.reset();
}

void OverriddenOp::follow_emulation() {
  cpu_.registration.reset();
  if (users_ == 0 || !has_own_kernel(name_) || !is_emulated_on_cpu(name_)) return;
  put(cpu_, DispatchKey::CPU, c10::KernelFunction::makeFromBoxedFunction<&handle<DispatchKey::CPU>>());
}

Mode parse_mode(const std::string& name) {
  static const std::unordered_map<std::string, Mode> modes{{"densecore", Mode::kDensecore}, {"host", Mode::kHost},
                                                           {"oracle", Mode::kOracle},       {"check", Mode::kCheck},
                                                           {"error", Mode::kError},         {"observe", Mode::kObserve}};
  const auto found = modes.find(name);
  TORCH_CHECK_VALUE(found != modes.end(), "densecore: unknown mode '", name, "' of an override");
  return found->second;
}

void ProfileSlot::set(const Profile& profile) {
  const std::lock_guard lock(mutex_);
  profile_ = std::make_shared<const Profile>(profile);
}

std::shared_ptr<const Profile> ProfileSlot::get() const {
  const std::lock_guard lock(mutex_);
  return profile_;
}

void Table::add(const std::string& op, std::vector<Choice> choices) {
  auto& entry = op_of(find_op(op));
  if (choices_.emplace(&entry, std::move(choices)).second) ops_.push_back(&entry);
}

const Choice* Table::find(const OverriddenOp* op) const {
  const auto found = choices_.find(op);
  if (found == choices_.end()) return nullptr;
  const std::string* path = nullptr;
  for (const auto& choice : found->second) {
    if (choice.scopes.empty()) return &choice;
    if (path == nullptr) path = &current_module_path();
    if (std::all_of(choice.scopes.begin(), choice.scopes.end(), [&](const std::string& scope) { return within(scope, *path); })) {
      return &choice;
    }
  }
  return nullptr;
}

void Table::install() {
  const std::lock_guard lock(state().keys);
  for (auto* op : ops_) op->install();
}

void Table::uninstall() {
  const std::lock_guard lock(state().keys);
  for (auto* op : ops_) op->uninstall();
}

void set_process_table(std::shared_ptr<const Table> table) {
  const std::lock_guard lock(state().keys);
  process_table.store(table.get(), std::memory_order_release);
  state().process_tables.push_back(std::move(table));
}

std::shared_ptr<const Table> thread_table() {
  if (!at::impl::ThreadLocalPythonObjects::contains(kThreadTable)) return nullptr;
  return std::static_pointer_cast<ThreadTable>(at::impl::ThreadLocalPythonObjects::get(kThreadTable))->table;
}

std::shared_ptr<const Table> exchange_thread_table(std::shared_ptr<const Table> table) {
  auto before = thread_table();
  if (table) {
    at::impl::ThreadLocalPythonObjects::set(kThreadTable, std::make_shared<ThreadTable>(std::move(table)));
  } else if (before) {
    at::impl::ThreadLocalPythonObjects::erase(kThreadTable);
  }
  return before;
}

void attach(Callbacks given) { callbacks() = std::move(given); }

std::vector<std::pair<std::string, int64_t>> overridden_calls() {
  const std::shared_lock lock(state().mutex);
  std::vector<std::pair<std::string, int64_t>> calls;
  for (const auto& [name, op] : state().ops) calls.emplace_back(op->name(), op->calls());
  return calls;
}

std::vector<std::pair<std::string, bool>> overridable_ops() {
  const auto device_only = device_only_ops();
  std::unordered_set<std::string> registered;
  for (const auto& [name, own] : device_ops()) registered.insert(name);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<std::pair<std::string, bool>> found;
  for (const auto& operator_name : dispatcher.getAllOpNames()) {
    const std::string name = c10::toString(operator_name);
    const auto op = dispatcher.findSchema(operator_name);
    if (!op || device_only.count(name) || is_view(op->schema())) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd)) continue;
    if (!op->hasKernelForDispatchKey(DispatchKey::CPU) && !op->hasComputedKernelForDispatchKey(DispatchKey::CPU)) continue;
    const bool composite = !registered.count(name) && !op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
    found.emplace_back(name, !composite);
  }
  return found;
}

void emulation_changed(const std::vector<std::string>& names) {
  const std::lock_guard lock(state().keys);
  const std::shared_lock ops(state().mutex);
  for (const auto& name : names) {
    const auto found = state().ops.find(parse_op_name(name));
    if (found != state().ops.end()) found->second->follow_emulation();
  }
}

SideGuard::SideGuard(Side side) : previous_(below) { below = side == Side::kHost ? kHost : kOurs; }
SideGuard::~SideGuard() { below = previous_; }

}  // namespace densecore::overrides
