// The cascade sum of ATen/native/cpu/SumKernel.cpp: a running sum of `step` elements is added to the next of four levels, whose
// sum moves up after `step` additions, and so on.
#pragma once

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

inline constexpr int kSumLevels = 4;

// log2 of the additions per level, for a sum of `size` elements.
DENSECORE_INLINE int sum_level_power(int64_t size) {
  const int ceil_log2 = size <= 2 ? 1 : 64 - __builtin_clzll(static_cast<uint64_t>(size - 1));
  return ceil_log2 / kSumLevels > 4 ? ceil_log2 / kSumLevels : 4;
}

template <class V, int U>
struct SumRegisters {
  V v[U];

  DENSECORE_INLINE void add(const SumRegisters& other) {
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) v[u] = v[u] + other.v[u];
  }
};

// The running sums of `count` elements from `begin`, for C runs that start `distance` elements apart.
template <class V, int U, int C, class Load>
DENSECORE_INLINE void run_sums(int64_t begin, int64_t count, int64_t distance, Load load, SumRegisters<V, U> (&run)[C]) {
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) run[c] = {};
  for (int64_t i = begin; i < begin + count; ++i) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u) run[c].v[u] = run[c].v[u] + load(i + c * distance, u);
    }
  }
}

// multi_row_sum: `size` elements of U registers of independent sums; load(i, u) gives register u of element i. Runs of `step`
// elements do not depend on each other: four of one register go at once to hide the latency.
template <class V, int U, class Load>
DENSECORE_INLINE SumRegisters<V, U> cascade_sum(int64_t size, Load load) {
  const int power = sum_level_power(size);
  const int64_t step = int64_t{1} << power;
  SumRegisters<V, U> level[kSumLevels] = {};
  int64_t i = 0;
  const auto carry = [&](const SumRegisters<V, U>& run) {
    i += step;
    level[1].add(run);
    for (int j = 2; j < kSumLevels && (i & ((step - 1) << ((j - 1) * power))) == 0; ++j) {
      level[j].add(level[j - 1]);
      level[j - 1] = {};
    }
  };
  constexpr int kRuns = U == 1 ? 4 : 1;
  if constexpr (kRuns > 1) {
    while (i + kRuns * step <= size) {
      SumRegisters<V, U> run[kRuns];
      run_sums(i, step, step, load, run);
      for (int c = 0; c < kRuns; ++c) carry(run[c]);
    }
  }
  SumRegisters<V, U> run[1];
  while (i + step <= size) {
    run_sums(i, step, step, load, run);
    carry(run[0]);
  }
  run_sums(i, size - i, step, load, run);
  for (int j = 1; j < kSumLevels; ++j) run[0].add(level[j]);
  return run[0];
}

}  // namespace densecore::DENSECORE_ISA
