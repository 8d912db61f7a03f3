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

  // Whether the kernels of blas/ have the order, for sums of k elements: a single block is no block.
  constexpr bool plain(int64_t k) const {
    return fused && (block == 0 || k <= block) && (lanes == 1 || lane_join == LaneJoin::kAdjacent);
  }
};
inline constexpr SumOrder kChain{1, 1, true};
inline constexpr SumOrder kEvenOdd{1, 2, true};
inline constexpr SumOrder kVector{4, 4, true};  // 4 floats: one 16-byte vector
inline constexpr SumOrder kVectorRoundedTail{4, 4, false};

// When beta * C is added to alpha * A * B: to the sum of the products, which alpha multiplies (Accelerate); before the blocks of k are, with A
// multiplied by alpha (MKL); as the start of one chain, with B multiplied by alpha (MKL's small products). Or a probe could not tell.
enum class Addend : int { kLast, kFirst, kChain, kUnknown };

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
  Addend addend = Addend::kLast;

  constexpr bool plain(int64_t k) const { return known && order.plain(k) && odd_last_column.plain(k); }
  constexpr bool fits(BlasRoutine asked, char asked_trans, int64_t m, int64_t n, int64_t k) const {
    return routine == asked && (trans == '*' || trans == asked_trans) && m * n * k >= minimum_product && m >= minimum_m &&
           n >= minimum_n && k >= minimum_k;
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
  bool plain = true;                  // whether the kernels of blas/ serve every request; else they serve those whose row is plain
  int64_t largest_side = INT64_MAX;   // m and n up to which a probe has looked
  int64_t largest_depth = INT64_MAX;  // and k

  // The row for a request with m by n outputs, each a sum of k elements (gemv: n = 1; dot: m = n = 1). Null where no row fits or its
  // order is not known; never of a plain table.
  constexpr const BlasRule* find(BlasRoutine routine, char trans, int64_t m, int64_t n, int64_t k) const {
    if (m > largest_side || n > largest_side || k > largest_depth) return nullptr;
    for (int i = 0; i < count; ++i) {
      if (rows[i].fits(routine, trans, m, n, k)) return rows[i].known ? &rows[i] : nullptr;
    }
    return nullptr;
  }
};
inline constexpr BlasRules kAccelerateRules{};

}  // namespace densecore
