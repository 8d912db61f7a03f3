// Rows side by side. The reference reduces a row on one vector of 4 lanes (Vectorized<float> on NEON), a chain of dependent
// operations; here a host register holds that vector for kRowsPerVector rows, and kRowVectors registers run at once to hide the
// latency. A row never sees another, so the batch cannot change a bit.
#pragma once

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

inline constexpr int64_t kGroup = 4;  // lanes of the reference's vector
inline constexpr int kRowsPerVector = kWidth / kGroup;
inline constexpr int kRowVectors = 4;
inline constexpr int kRowBatch = kRowsPerVector * kRowVectors;
using RowVector = F32<kWidth>;

// ---- groups of 4 lanes ---------------------------------------------------------------------------------------------------

// Lanes 2 3 0 1 of every group.
template <class V>
DENSECORE_INLINE V swap_halves(V v) {
  if constexpr (lane_count<V> == 4) return __builtin_shufflevector(v, v, 2, 3, 0, 1);
  if constexpr (lane_count<V> == 8) return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  if constexpr (lane_count<V> == 16) {
    return __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  }
}
// Lanes 1 0 3 2 of every group.
template <class V>
DENSECORE_INLINE V swap_pairs(V v) {
  if constexpr (lane_count<V> == 4) return __builtin_shufflevector(v, v, 1, 0, 3, 2);
  if constexpr (lane_count<V> == 8) return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
  if constexpr (lane_count<V> == 16) {
    return __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  }
}
// All ones in the first n lanes of every group.
DENSECORE_INLINE mask_type<RowVector> first_of_group(int64_t n) {
  mask_type<RowVector> lane;
  for (int i = 0; i < kWidth; ++i) lane[i] = i % kGroup;
  return lane < static_cast<int32_t>(n);
}
// The same 4 lanes in every group.
DENSECORE_INLINE RowVector repeat_group(F32<4> v) {
  if constexpr (kWidth == 4) return bit_cast<RowVector>(v);
  if constexpr (kWidth == 8) return bit_cast<RowVector>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 0, 1, 2, 3));
  if constexpr (kWidth == 16) {
    return bit_cast<RowVector>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
  }
}
// One group from each of kRowsPerVector sources.
template <class Source>
DENSECORE_INLINE RowVector collect_groups(Source source) {
  if constexpr (kWidth == 4) return source(0);
  if constexpr (kWidth == 8) {
    return bit_cast<RowVector>(__builtin_shufflevector(source(0), source(1), 0, 1, 2, 3, 4, 5, 6, 7));
  }
  if constexpr (kWidth == 16) {
    const auto low = __builtin_shufflevector(source(0), source(1), 0, 1, 2, 3, 4, 5, 6, 7);
    const auto high = __builtin_shufflevector(source(2), source(3), 0, 1, 2, 3, 4, 5, 6, 7);
    return bit_cast<RowVector>(__builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }
}

// ---- a batch of rows -----------------------------------------------------------------------------------------------------

// Where a group is read: columns [begin, begin + 4), or only the first `count` of them with zeros after.
struct WholeGroup {
  int64_t begin;
  DENSECORE_INLINE F32<4> operator()(const float* row) const { return load<F32<4>>(row + begin); }
};
struct PartGroup {
  int64_t begin;
  int64_t count;
  DENSECORE_INLINE F32<4> operator()(const float* row) const { return load_partial<F32<4>>(row + begin, count); }
};

// kRowBatch rows of one matrix. Of a shorter batch the last row is repeated; its extra results are dropped by the caller.
struct Rows {
  const float* row[kRowBatch];

  Rows(const float* first, int64_t stride, int64_t count) {
    for (int64_t r = 0; r < kRowBatch; ++r) row[r] = first + (r < count ? r : count - 1) * stride;
  }
  // Register u: its rows' groups.
  template <class Where>
  DENSECORE_INLINE RowVector read(int u, Where where) const {
    return collect_groups([&](int r) { return where(row[u * kRowsPerVector + r]); });
  }
};
// One row for all, as a weight.
struct SharedRow {
  const float* row;
  template <class Where>
  DENSECORE_INLINE RowVector read(int, Where where) const {
    return repeat_group(where(row));
  }
};

template <int U = kRowVectors, class F>
DENSECORE_INLINE void each_row_vector(F f) {
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) f(u);
}

// vec::reduce_all and map*_reduce_all (ATen/cpu/vec/functional_base.h) for a batch of rows of n > 0 elements. value(u, where) gives
// register u's mapped groups; result[r] is row r's value: the groups combined in order, a last part group into its own lanes only,
// then lane i with i + 2, then the two.
template <class Value, class Combine>
DENSECORE_INLINE void reduce_rows(int64_t n, Value value, Combine combine, float* result) {
  RowVector acc[kRowVectors];
  if (n < kGroup) {
    each_row_vector([&](int u) {
      const RowVector v = value(u, PartGroup{0, n});
      acc[u] = v;
      if (n > 1) acc[u] = combine(acc[u], swap_pairs(v));
      if (n > 2) acc[u] = combine(acc[u], swap_halves(v));
    });
  } else {
    each_row_vector([&](int u) { acc[u] = value(u, WholeGroup{0}); });
    int64_t j = kGroup;
    for (; j + kGroup <= n; j += kGroup) {
      each_row_vector([&](int u) { acc[u] = combine(acc[u], value(u, WholeGroup{j})); });
    }
    if (j < n) {
      const auto present = first_of_group(n - j);
      each_row_vector([&](int u) { acc[u] = select(present, combine(acc[u], value(u, PartGroup{j, n - j})), acc[u]); });
    }
    each_row_vector([&](int u) {
      acc[u] = combine(acc[u], swap_halves(acc[u]));
      acc[u] = combine(acc[u], swap_pairs(acc[u]));
    });
  }
  each_row_vector([&](int u) {
    for (int r = 0; r < kRowsPerVector; ++r) result[u * kRowsPerVector + r] = acc[u][r * kGroup];
  });
}

// ---- columns -------------------------------------------------------------------------------------------------------------

struct WholeVector {
  int64_t begin;
  DENSECORE_INLINE RowVector load(const float* row) const { return DENSECORE_ISA::load<RowVector>(row + begin); }
  DENSECORE_INLINE void store(float* row, RowVector v) const { DENSECORE_ISA::store(row + begin, v); }
};
struct PartVector {
  int64_t begin;
  int64_t count;
  DENSECORE_INLINE RowVector load(const float* row) const { return load_partial<RowVector>(row + begin, count); }
  DENSECORE_INLINE void store(float* row, RowVector v) const { store_partial(row + begin, v, count); }
};

// body(where) for n columns, a host register at a time: for elementwise code, whose bits do not depend on the grouping.
template <class Body>
DENSECORE_INLINE void each_column_vector(int64_t n, Body body) {
  int64_t j = 0;
  for (; j + kWidth <= n; j += kWidth) body(WholeVector{j});
  if (j < n) body(PartVector{j, n - j});
}

}  // namespace densecore::DENSECORE_ISA
