// Op-by-op overrides. For every op that an override in force concerns, a handler stands on the device's key (and on the CPU key
// while the op is emulated there) and decides for each call who computes it; other ops keep their kernels untouched.
//
// A Table says what is in force, already ranked by Python (torch_densecore/overrides). The process has one; a thread may have its
// own, which replaces it and which autograd's threads inherit with the rest of at::ThreadLocalState.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "numerics/profile.h"

namespace densecore::overrides {

enum class Mode {
  kDensecore,  // as without an override, under the choice's profile
  kHost,       // this machine's CPU kernel
  kOracle,     // the reference wheel
  kCheck,      // densecore, compared with `reference`
  kError,      // raises
  kObserve,    // densecore; the observer sees the call
};

// "densecore", "host", ...; raises ValueError for another word.
Mode parse_mode(const std::string& name);

// A profile that can be exchanged while calls run under it.
class ProfileSlot {
 public:
  void set(const Profile& profile);
  std::shared_ptr<const Profile> get() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Profile> profile_;
};

struct Counter {
  std::atomic<int64_t> value{0};
};

// What happens to a call of an op in a module that is within all of `scopes`.
struct Choice {
  std::vector<std::string> scopes;  // globs such as "transformer.h.3.*"; none: everywhere
  Mode mode = Mode::kDensecore;
  Mode reference = Mode::kHost;          // of kCheck: kHost or kOracle
  std::shared_ptr<ProfileSlot> profile;  // null: the profile in force
  std::vector<std::shared_ptr<Counter>> counters;  // of the rules that made this choice
  int64_t tag = 0;                                 // Python's name for it
};

// One op that has been overridden at some time; lives as long as the process.
class OverriddenOp;

class Table {
 public:
  // The first choice whose scopes match decides. An op that cannot be overridden raises ValueError.
  void add(const std::string& op, std::vector<Choice> choices);
  const Choice* find(const OverriddenOp* op) const;
  // Puts the handlers on their keys and takes them off again. Calls nest, also between tables.
  void install();
  void uninstall();

 private:
  std::unordered_map<const OverriddenOp*, std::vector<Choice>> choices_;
  std::vector<OverriddenOp*> ops_;
};

// The table of the process; null for none.
void set_process_table(std::shared_ptr<const Table> table);
// This thread's own table; null: the thread follows the process.
std::shared_ptr<const Table> thread_table();
// Makes `table` this thread's and returns the one before; null: the thread follows the process.
std::shared_ptr<const Table> exchange_thread_table(std::shared_ptr<const Table> table);

// What Python does: `refuse` raises for kError, `compare` reports the sides of kCheck, `observe` is told of a call.
struct Difference {
  std::string op;
  int64_t call = 0;  // number of this call among the op's overridden ones, from 0
  std::string module;
  int64_t tag = 0;
  torch::jit::Stack inputs;            // as they were before the call
  std::vector<std::string> names;      // of the compared values: "result 0", or the name of a written argument
  torch::jit::Stack ours, reference;   // the values
  bool same_generator;                 // both sides left the random generator in the same state
};
struct Callbacks {
  std::function<void(const std::string& op, int64_t tag)> refuse;
  std::function<void(Difference)> compare;
  std::function<void(const std::string& op, torch::jit::Stack arguments, torch::jit::Stack results)> observe;
};
void attach(Callbacks callbacks);

// Every op that has been overridden so far, and how many calls of it an override has decided.
std::vector<std::pair<std::string, int64_t>> overridden_calls();

// The ops that can be overridden; false: torch composes the op of others that can be overridden themselves.
std::vector<std::pair<std::string, bool>> overridable_ops();

// Called when our kernels have been put on the CPU key or taken off it.
void emulation_changed(const std::vector<std::string>& ops);

// While it lives, ops on this thread run as without any override, or as the host would.
enum class Side { kOurs, kHost };
class SideGuard {
 public:
  explicit SideGuard(Side side);
  ~SideGuard();
  SideGuard(const SideGuard&) = delete;
  SideGuard& operator=(const SideGuard&) = delete;

 private:
  int previous_;
};

}  // namespace densecore::overrides
