// What the registry says about serving an op with the host's own CPU kernel, per dtype.
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace densecore {

// One bit for every ScalarType.
using DtypeMask = uint64_t;
static_assert(static_cast<int>(c10::ScalarType::NumOptions) <= 64);
constexpr DtypeMask dtype_bit(c10::ScalarType type) { return DtypeMask{1} << static_cast<int>(type); }
std::vector<c10::ScalarType> dtypes_of(DtypeMask mask);

// What happens when an op has neither a kernel nor a certificate for a dtype.
enum class Uncertified : int { kError, kWarn, kOracle, kHost };
Uncertified uncertified_mode();
void set_uncertified_mode(Uncertified mode);
const char* uncertified_name(Uncertified mode);
Uncertified parse_uncertified(const std::string& name);

// Who runs an op that no kernel of ours serves.
enum class ServedBy { kHost, kOracle };

// Whether Python has attached the oracle (csrc/runtime/oracle.h).
void set_oracle_attached(bool attached);

class OpPolicy {
 public:
  // "aten::add.Tensor"
  explicit OpPolicy(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  // The dtypes for which the host's kernel is known to give the reference's bits.
  DtypeMask exact() const { return exact_; }
  void set_exact(DtypeMask mask);
  // Forgets what has been warned about and applies the mode in force.
  void refresh();

  // The fast check of every host call: true if no tensor of the call has a dtype that needs a decision.
  bool allows(DtypeMask used) const { return (used & ~allowed_.load(std::memory_order_relaxed)) == 0; }
  // The decision: who runs the op. Raises UncertifiedOpError if nobody may.
  ServedBy decide(DtypeMask used);

 private:
  std::string name_;
  DtypeMask exact_ = 0;
  std::atomic<DtypeMask> allowed_{0};
};

// The policy of an op; it lives as long as the process. `name` is "aten::add.Tensor".
OpPolicy& policy_of(const std::string& name);

}  // namespace densecore
