// In which order Accelerate's sgemm, sgemv and sdot add up: a rule table, part of the profile.
//
// Mirrors torch_densecore/profiles/blas/accelerate.json, which gives the source of every row. The first row that matches a
// request holds. The large product is known from public values of Macs; the rows marked provisional fit the few values that
// are public and are not the only ones that do, so a result that used one says so ("sgemm_small").
#pragma once

#include <cstdint>

namespace densecore {

// In which order the lanes of a vector are added: the upper half to the lower one, and so on; neighbours; or one after the other.
enum class LaneJoin : int { kHalves, kAdjacent, kInOrder };

// A dot product along k: `lanes` neighbours side by side, `accumulators` fused chains that take such groups in turn; their sums
// are added in pairs, then adjacent lanes, then come the elements after the last whole group, each fused or rounded twice.
inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxAccumulators = 16;
struct SumOrder {
  int lanes;
  int accumulators;
  bool fused_tail;
  // What only other libraries do (variant/gemm.cpp): rounded products, sums of blocks of `block` elements (0: one block) and, with
  // `halves`, of k / 2 elements for k between one block and two, another order of the lanes.
  bool fused = true;
  int64_t block = 0;
  bool halves = false;
  LaneJoin lane_join = LaneJoin::kAdjacent;

  constexpr bool plain() const { return fused && block == 0 && lane_join == LaneJoin::kAdjacent; }
};
inline constexpr SumOrder kChain{1, 1, true};
inline constexpr SumOrder kEvenOdd{1, 2, true};
inline constexpr SumOrder kVector{4, 4, true};  // 4 floats: one 16-byte vector
inline constexpr SumOrder kVectorRoundedTail{4, 4, false};

enum class BlasRoutine : int { kGemm, kGemv, kDot };

struct BlasRule {
  BlasRoutine routine;
  char trans;               // of the first matrix: 'N', 'T', or '*' for both
  int64_t minimum_product;  // m * n * k from which the row holds
  SumOrder order;
  SumOrder odd_last_column;  // gemm with odd n: the order of the last column
  bool provisional;
  int64_t minimum_m = 0;
  int64_t minimum_n = 0;
  int64_t minimum_k = 0;
  bool known = true;  // whether a probe could tell the order

  constexpr bool plain() const {
    return known && order.plain() && odd_last_column.plain() && minimum_m <= 1 && minimum_n <= 1 && minimum_k <= 1;
  }
};

inline constexpr int kMaxBlasRules = 64;

struct BlasRules {
  BlasRule rows[kMaxBlasRules] = {
      {BlasRoutine::kGemm, '*', 3072, kChain, kChain, false},
      {BlasRoutine::kGemm, 'N', 0, kChain, kEvenOdd, true},
      {BlasRoutine::kGemm, 'T', 0, kVector, kVectorRoundedTail, true},
      {BlasRoutine::kGemv, 'N', 0, kEvenOdd, kEvenOdd, true},
      {BlasRoutine::kGemv, 'T', 0, kVectorRoundedTail, kVectorRoundedTail, true},
      {BlasRoutine::kDot, '*', 0, kVectorRoundedTail, kVectorRoundedTail, true},
  };
  int count = 6;
  bool plain = true;                 // whether blas/ serves every row; else variant/ does
  int64_t largest_side = INT64_MAX;   // m and n up to which a probe has looked
  int64_t largest_depth = INT64_MAX;  // and k
  bool adds_blocks_to_start = false;  // beta * C comes first and the blocks of k are added to it one by one (MKL), not last

  // The row for a request; where none fits (the table lacks a routine) the first one.
  constexpr const BlasRule& find(BlasRoutine routine, char trans, int64_t product) const {
    for (int i = 0; i < count; ++i) {
      const BlasRule& row = rows[i];
      if (row.routine == routine && (row.trans == '*' || row.trans == trans) && product >= row.minimum_product) return row;
    }
    return rows[0];
  }
  // The same for a table that is not plain; null where no row fits or its order is not known.
  constexpr const BlasRule* find(BlasRoutine routine, char trans, int64_t m, int64_t n, int64_t k) const {
    if (m > largest_side || n > largest_side || k > largest_depth) return nullptr;
    for (int i = 0; i < count; ++i) {
      const BlasRule& row = rows[i];
      const bool fits = m * n * k >= row.minimum_product && m >= row.minimum_m && n >= row.minimum_n && k >= row.minimum_k;
      if (row.routine == routine && (row.trans == '*' || row.trans == trans) && fits) return row.known ? &row : nullptr;
    }
    return nullptr;
  }
};
inline constexpr BlasRules kAccelerateRules{};

}  // namespace densecore
