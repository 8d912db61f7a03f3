// In which order Accelerate's sgemm, sgemv and sdot add up: a rule table, part of the profile.
//
// Mirrors torch_densecore/profiles/blas/accelerate.json, which gives the source of every row. The first row that matches a
// request holds. The large product is known from public values of Macs; the rows marked provisional fit the few values that
// are public and are not the only ones that do, so a result that used one says so ("sgemm_small").
#pragma once

#include <cstdint>

namespace densecore {

// A dot product along k: `lanes` neighbours side by side, `accumulators` fused chains that take such groups in turn; their sums
// are added in pairs, then adjacent lanes, then come the elements after the last whole group, each fused or rounded twice.
inline constexpr int kMaxLanes = 16;
inline constexpr int kMaxAccumulators = 16;
struct SumOrder {
  int lanes;
  int accumulators;
  bool fused_tail;
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
};

inline constexpr int kMaxBlasRules = 16;

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

  // The row for a request; where none fits (the table lacks a routine) the first one.
  constexpr const BlasRule& find(BlasRoutine routine, char trans, int64_t product) const {
    for (int i = 0; i < count; ++i) {
      const BlasRule& row = rows[i];
      if (row.routine == routine && (row.trans == '*' || row.trans == trans) && product >= row.minimum_product) return row;
    }
    return rows[0];
  }
};
inline constexpr BlasRules kAccelerateRules{};

}  // namespace densecore
