// Rows side by side. The reference reduces a row on one vector of 4 lanes (Vectorized<float> on NEON), a chain of dependent
// operations. Here a host register holds that vector for kRowsPerVector rows, and U registers run at once to hide the latency
// (kRowVectors unless said otherwise; fewer where the rows are read again, so that they stay in the first-level cache). A row never
// sees another, so the batch cannot change a bit.
#pragma once

#include "../lanes.h"
#include "../transpose_groups.h"

namespace densecore::DENSECORE_ISA {

inline constexpr int64_t kGroup = 4;  // lanes of the reference's vector
inline constexpr int kRowsPerVector = kWidth / kGroup;
inline constexpr int kRowVectors = 4;
template <int U>
inline constexpr int row_batch = kRowsPerVector * U;
inline constexpr int kRowBatch = row_batch<kRowVectors>;
using RowVector = F32<kWidth>;

// ---- columns of a row ----------------------------------------------------------------------------------------------------

// A host register of columns, from `begin`.
struct WholeVector {
  int64_t begin;
  DENSECORE_INLINE RowVector load(const float* row) const { return DENSECORE_ISA::load<RowVector>(row + begin); }
  DENSECORE_INLINE void store(float* row, RowVector v) const { DENSECORE_ISA::store(row + begin, v); }
};
// Its first `count` lanes; the others are loaded as zeros and not stored.
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
// ---- a batch of rows -----------------------------------------------------------------------------------------------------

// row_batch<U> rows of one matrix. Of a shorter batch the last row is repeated; its extra results are dropped by the caller.
template <int U = kRowVectors>
struct Rows {
  const float* row[row_batch<U>];

  Rows(const float* first, int64_t stride, int64_t count) {
    for (int64_t r = 0; r < row_batch<U>; ++r) row[r] = first + (r < count ? r : count - 1) * stride;
  }
  const float* operator[](int r) const { return row[r]; }
};

// f(u) for every register of the batch.
template <int U = kRowVectors, class F>
DENSECORE_INLINE void each_row_vector(F f) {
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) f(u);
}

// Row vectors [0, kRowsPerVector) of register u at `where`, transposed: v[k] holds group k of every row.
template <class Where, class Value>
DENSECORE_INLINE void load_groups(int u, Where where, Value value, RowVector (&v)[kRowsPerVector]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRowsPerVector; ++r) v[r] = value(u * kRowsPerVector + r, where);
  transpose_groups(v);
}

// step(u, groups) for every register and every whole group of n columns, in order; then rest(u, group, count) for a last part group
// of `count` columns. value(r, where) gives row r's columns.
template <int U = kRowVectors, class Value, class Step, class Rest>
DENSECORE_INLINE void walk_groups(int64_t begin, int64_t n, Value value, Step step, Rest rest) {
  int64_t j = begin;
  for (; j + kWidth <= n; j += kWidth) {
    each_row_vector<U>([&](int u) {
      RowVector v[kRowsPerVector];
      load_groups(u, WholeVector{j}, value, v);
#pragma GCC unroll 4
      for (int k = 0; k < kRowsPerVector; ++k) step(u, v[k], (j - begin) / kGroup + k);
    });
  }
  if (j == n) return;
  each_row_vector<U>([&](int u) {
    RowVector v[kRowsPerVector];
    load_groups(u, PartVector{j, n - j}, value, v);
    const int whole = static_cast<int>((n - j) / kGroup);
    for (int k = 0; k < whole; ++k) step(u, v[k], (j - begin) / kGroup + k);
    if (n % kGroup) rest(u, v[whole], n % kGroup);
  });
}

// vec::reduce_all and map*_reduce_all (ATen/cpu/vec/functional_base.h) for a batch of rows of n > 0 elements. value(r, where) gives
// row r's mapped columns; result[r] is row r's value: the groups combined in order, a last part group into its own lanes only,
// then lane i with i + 2, then the two. Rows shorter than a group combine their elements in order.
template <int U = kRowVectors, class Value, class Combine>
DENSECORE_INLINE void reduce_rows(int64_t n, Value value, Combine combine, float* result) {
  RowVector acc[U] = {};
  if (n < kGroup) {
    each_row_vector<U>([&](int u) {
      RowVector v[kRowsPerVector];
      load_groups(u, PartVector{0, n}, value, v);
      acc[u] = v[0];
      if (n > 1) acc[u] = combine(acc[u], swap_pairs(v[0]));
      if (n > 2) acc[u] = combine(acc[u], swap_halves(v[0]));
    });
  } else {
    const auto step = [&](int u, RowVector v, int64_t group) { acc[u] = group == 0 ? v : combine(acc[u], v); };
    const auto rest = [&](int u, RowVector v, int64_t count) {
      acc[u] = select(first_of_group(count), combine(acc[u], v), acc[u]);
    };
    walk_groups<U>(0, n, value, step, rest);
    each_row_vector<U>([&](int u) {
      acc[u] = combine(acc[u], swap_halves(acc[u]));
      acc[u] = combine(acc[u], swap_pairs(acc[u]));
    });
  }
  each_row_vector<U>([&](int u) {
    for (int r = 0; r < kRowsPerVector; ++r) result[u * kRowsPerVector + r] = acc[u][r * kGroup];
  });
}

}  // namespace densecore::DENSECORE_ISA
