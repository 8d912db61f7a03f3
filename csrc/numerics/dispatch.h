// Chooses among the builds of one kernel for different instruction sets.
//
// A file below csrc/numerics/<family>/ is compiled once per level of the build host's architecture, each time with
// DENSECORE_ISA naming the level, and puts its code into namespace densecore::DENSECORE_ISA. The public header declares the
// kernel with DENSECORE_KERNEL, which makes densecore::name(...) call the best variant that the CPU runs.
#pragma once

#include <array>

namespace densecore {

#if defined(__x86_64__) || defined(_M_X64)
#define DENSECORE_X86 1
enum class Isa : int { kDefault = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kIsaCount = 3;
#else
#define DENSECORE_X86 0
enum class Isa : int { kDefault = 0 };
inline constexpr int kIsaCount = 1;
#endif

// The best level of this CPU, lowered by the environment variable DENSECORE_ISA (default, avx2, avx512).
Isa detected_isa();
Isa active_isa();
// Lowers (or restores) the level at run time; a level above detected_isa() throws std::invalid_argument.
void set_isa(Isa level);
const char* isa_name(Isa level);
// Parses the names that isa_name gives; throws std::invalid_argument for others.
Isa parse_isa(const char* name);

template <class Fn>
struct Dispatched {
  std::array<Fn*, kIsaCount> variants;

  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    return variants[static_cast<int>(active_isa())](static_cast<Args&&>(args)...);
  }
  // For loops that call one variant many times.
  Fn* get() const { return variants[static_cast<int>(active_isa())]; }
};

// DENSECORE_KERNEL(name, FnType), at namespace scope inside `namespace densecore`, with a function type:
//   using ExpFn = void(const float* x, float* y, int64_t n);
//   DENSECORE_KERNEL(exp_contiguous, ExpFn);
#if DENSECORE_X86
#define DENSECORE_KERNEL(name, FnType) \
  namespace isa_default {              \
  FnType name;                         \
  }                                    \
  namespace isa_avx2 {                 \
  FnType name;                         \
  }                                    \
  namespace isa_avx512 {               \
  FnType name;                         \
  }                                    \
  inline constexpr Dispatched<FnType> name{{&isa_default::name, &isa_avx2::name, &isa_avx512::name}}
#else
#define DENSECORE_KERNEL(name, FnType) \
  namespace isa_default {              \
  FnType name;                         \
  }                                    \
  inline constexpr Dispatched<FnType> name{{&isa_default::name}}
#endif

}  // namespace densecore

// The build passes -DDENSECORE_ISA=isa_default, isa_avx2 or isa_avx512; a file compiled once does not see it.
#ifndef DENSECORE_ISA
#define DENSECORE_ISA isa_default
#endif
