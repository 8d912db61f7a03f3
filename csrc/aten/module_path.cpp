#include "aten/module_path.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace densecore {
namespace {

constexpr size_t kMaxTurns = size_t{1} << 20;  // 16 MB a thread; a backward that comes later finds no module
constexpr uint64_t kAccumulateGrad = std::numeric_limits<uint64_t>::max();

// From sequence number `first` on, the nodes that a thread makes belong to `path`.
struct Turn {
  uint64_t first;
  const std::string* path;
};

// Not destroyed: threads of autograd may outlive us when the process exits.
struct State {
  std::mutex mutex;
  int users = 0;
  std::unordered_set<std::string> paths{""};
  std::unordered_map<uint64_t, std::vector<Turn>> turns;  // by the thread that made the nodes
};

State& state() {
  static auto* all = new State;
  return *all;
}

std::atomic<int> period{0};  // 0: off; else the number of the period in which paths are tracked

struct Running {
  int period = 0;
  const std::string* path = nullptr;
};
thread_local Running running;

const std::string& nowhere() {
  static const auto* empty = new std::string;
  return *empty;
}

void note_turn(std::vector<Turn>& turns, Turn turn) {
  if (!turns.empty() && turns.back().first == turn.first) turns.pop_back();
  if (turns.size() >= kMaxTurns) turns.erase(turns.begin(), turns.begin() + kMaxTurns / 2);
  turns.push_back(turn);
}

const std::string& path_of(const torch::autograd::Node& node) {
  if (node.sequence_nr() == kAccumulateGrad) return nowhere();
  const std::lock_guard lock(state().mutex);
  const auto found = state().turns.find(node.thread_id());
  if (found == state().turns.end()) return nowhere();
  const auto& turns = found->second;
  const auto after = std::upper_bound(turns.begin(), turns.end(), node.sequence_nr(),
                                      [](uint64_t number, const Turn& turn) { return number < turn.first; });
  return after == turns.begin() ? nowhere() : *std::prev(after)->path;
}

}  // namespace

void track_modules(bool on) {
  static int last_period = 0;
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  all.users += on ? 1 : -1;
  if (on && all.users == 1) period.store(++last_period);
  if (all.users == 0) {
    period.store(0);
    all.turns.clear();
  }
}

void set_module_path(const std::string& path) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  running = {period.load(), &*all.paths.insert(path).first};
  note_turn(all.turns[at::RecordFunction::currentThreadId()], {at::sequence_number::peek(), running.path});
}

const std::string& current_module_path() {
  const int now = period.load(std::memory_order_relaxed);
  if (now == 0) return nowhere();
  if (running.period == now && !running.path->empty()) return *running.path;  // in a backward: a forward computed again
  const auto node = torch::autograd::get_current_node();
  return node ? path_of(*node) : nowhere();
}

}  // namespace densecore
