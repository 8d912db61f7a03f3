#include "aten/op_policy.h"

#include <memory>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "aten/errors.h"
#include "aten/profile.h"

namespace densecore {
namespace {

std::atomic<Uncertified> mode_in_force{Uncertified::kWarn};
std::atomic<bool> oracle_attached{false};
constexpr const char* kModeNames[] = {"error", "warn", "oracle", "host"};

struct Policies {
  std::mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<OpPolicy>> by_name;
};

Policies& policies() {
  static auto* all = new Policies;  // kernels may run while the process exits
  return *all;
}

std::string dtype_list(DtypeMask mask) {
  std::string text;
  for (const auto type : dtypes_of(mask)) {
    text += (text.empty() ? "" : ", ") + std::string(c10::getDtypeNames(type).first);
  }
  return text;
}

std::string uncertified_message(const std::string& op, DtypeMask dtypes) {
  std::ostringstream text;
  text << op << " has no certified kernel for " << dtype_list(dtypes) << " (profile: " << describe(current_profile()) << ")";
  return text.str();
}

constexpr const char* kWaysOn =
    "Ways on: DENSECORE_UNCERTIFIED=host (this machine's own CPU bits), =oracle (the reference's bits, slow), =warn, or "
    "torch_densecore.set_uncertified(...); `densecore coverage` lists what is certified.";

void warn(const std::string& message) {
  static std::atomic<bool> explained{false};
  TORCH_WARN(message, "; the host's CPU kernel serves it, whose bits may differ from the reference's",
             explained.exchange(true) ? "" : std::string(". ") + kWaysOn);
}

}  // namespace

std::vector<c10::ScalarType> dtypes_of(DtypeMask mask) {
  std::vector<c10::ScalarType> types;
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (type != c10::ScalarType::Undefined && (mask & dtype_bit(type))) types.push_back(type);
  }
  return types;
}

void set_oracle_attached(bool attached) { oracle_attached.store(attached); }

Uncertified uncertified_mode() { return mode_in_force.load(std::memory_order_relaxed); }

void set_uncertified_mode(Uncertified mode) {
  mode_in_force.store(mode);
  auto& all = policies();
  const std::lock_guard lock(all.mutex);
  for (auto& [name, policy] : all.by_name) policy->refresh();
}

const char* uncertified_name(Uncertified mode) { return kModeNames[static_cast<int>(mode)]; }

Uncertified parse_uncertified(const std::string& name) {
  for (int i = 0; i < 4; ++i) {
    if (name == kModeNames[i]) return static_cast<Uncertified>(i);
  }
  TORCH_CHECK_VALUE(false, "densecore: unknown mode '", name, "' for uncertified ops; expected error, warn, oracle or host");
}

void OpPolicy::set_exact(DtypeMask mask) {
  exact_ = mask;
  refresh();
}

void OpPolicy::refresh() {
  allowed_.store(uncertified_mode() == Uncertified::kHost ? ~DtypeMask{0} : exact_);
}

ServedBy OpPolicy::decide(DtypeMask used) {
  const DtypeMask lacking = used & ~exact_;
  switch (uncertified_mode()) {
    case Uncertified::kHost:
      return ServedBy::kHost;
    case Uncertified::kWarn:
      // One warning an op and dtype: from here on the fast check passes.
      if (lacking & ~allowed_.fetch_or(lacking)) warn(uncertified_message(name_, lacking));
      return ServedBy::kHost;
    case Uncertified::kError:
      raise_uncertified(uncertified_message(name_, lacking) + ". " + kWaysOn);
    case Uncertified::kOracle:
      if (oracle_attached.load(std::memory_order_relaxed)) return ServedBy::kOracle;
      raise_uncertified(uncertified_message(name_, lacking) +
                        ", and the oracle is not attached (it needs torch_densecore[oracle] and 64-bit Linux). " + kWaysOn);
  }
  TORCH_INTERNAL_ASSERT(false, "unknown mode");
}

OpPolicy& policy_of(const std::string& name) {
  auto& all = policies();
  const std::lock_guard lock(all.mutex);
  auto& policy = all.by_name[name];
  if (!policy) {
    policy = std::make_unique<OpPolicy>(name);
    policy->refresh();
  }
  return *policy;
}

}  // namespace densecore
