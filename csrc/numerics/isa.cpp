// The instruction-set level in force. Compiled once.
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "dispatch.h"

namespace densecore {
namespace {

constexpr const char* kNames[] = {"default", "avx2", "avx512"};

Isa best_of_cpu() {
#if DENSECORE_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kDefault;
}

Isa level_at_start() {
  const Isa best = best_of_cpu();
  const char* cap = std::getenv("DENSECORE_ISA");
  if (cap == nullptr || *cap == '\0') return best;
  const Isa wanted = parse_isa(cap);
  return wanted < best ? wanted : best;
}

std::atomic<Isa>& level() {
  static std::atomic<Isa> value{level_at_start()};
  return value;
}

}  // namespace

Isa detected_isa() {
  static const Isa value = level_at_start();
  return value;
}

Isa active_isa() { return level().load(std::memory_order_relaxed); }

void set_isa(Isa wanted) {
  if (wanted > detected_isa()) {
    throw std::invalid_argument(std::string("densecore: this CPU (or DENSECORE_ISA) allows at most ") +
                                isa_name(detected_isa()) + ", not " + isa_name(wanted));
  }
  level().store(wanted, std::memory_order_relaxed);
}

const char* isa_name(Isa value) { return kNames[static_cast<int>(value)]; }

Isa parse_isa(const char* name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (std::string(name) == kNames[i]) return static_cast<Isa>(i);
  }
  std::string known;
  for (int i = 0; i < kIsaCount; ++i) known += std::string(i ? ", " : "") + kNames[i];
  throw std::invalid_argument("densecore: unknown ISA level '" + std::string(name) + "' (known here: " + known + ")");
}

}  // namespace densecore
