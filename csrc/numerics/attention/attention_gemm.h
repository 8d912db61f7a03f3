// The matrix products inside attention, on operands that are used where they lie.
//
// Same bits as sgemm (one fused chain per output, beta * C last) for shapes whose order is the chain; attention's blocks are so small
// that packing both sides for every product would cost as much as the product. Only K and V are packed, transposed, once a head.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "../blas/gemm.h"
#include "../blas/gemm_tile.h"
#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

// out[w, v] = alpha * sum over k of w_side[w, k] * v_side[k, v]  (+ out[w, v]). v lies along lanes and is contiguous in v_side
// and out; w is broadcast, any strides.
struct SmallProduct {
  const float* v_side;
  int64_t v_stride;  // between values of k
  int64_t v_tile;    // between tiles of kTileLanes columns: kTileLanes where v lies in rows, more where it is packed
  const float* w_side;
  int64_t w_stride;
  int64_t w_step;  // between values of k
  float* out;
  int64_t out_stride;
  int64_t v_size;
  int64_t w_size;
  int64_t depth;
  float alpha;
  bool accumulate;
};

namespace small_product {

using Vector = F32<kWidth>;

// Accumulators, the lane side's vectors and one broadcast fill the registers.
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int kVectors = 4;
#else
inline constexpr int kVectors = 2;
#endif
inline constexpr int kTileRows = 6;
inline constexpr int kTileLanes = kVectors * kWidth;

// Lanes of vector j that lie inside `columns`.
DENSECORE_INLINE int64_t lanes_of(int64_t columns, int j) { return std::clamp<int64_t>(columns - j * kWidth, 0, kWidth); }

template <int NV, int R, bool kPartial>
void tile(const SmallProduct& p, int64_t v, int64_t w, int64_t columns) {
  Vector sum[R][NV] = {};
  const float* v_side = p.v_side + v / kTileLanes * p.v_tile;
  const float* w_side = p.w_side + w * p.w_stride;
  const int64_t w_stride = p.w_stride;
  for (int64_t k = p.depth; k > 0; --k) {
    Vector value[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      value[j] = kPartial ? load_partial<Vector>(v_side + j * kWidth, lanes_of(columns, j)) : load<Vector>(v_side + j * kWidth);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vector factor = splat<Vector>(w_side[r * w_stride]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[r][j] = fma(value[j], factor, sum[r][j]);
    }
    v_side += p.v_stride;
    w_side += p.w_step;
  }
  const Vector alpha = splat<Vector>(p.alpha);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* out = p.out + (w + r) * p.out_stride + v;
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j, out += kWidth) {
      const int64_t lanes = kPartial ? lanes_of(columns, j) : kWidth;
      const Vector scaled = p.accumulate ? fma(alpha, sum[r][j], load_partial<Vector>(out, lanes)) : alpha * sum[r][j];
      store_partial(out, scaled, lanes);
    }
  }
}

using TileFn = void(const SmallProduct& p, int64_t v, int64_t w, int64_t columns);

template <int NV, bool kPartial, int... I>
TileFn* choose(int64_t rows, std::integer_sequence<int, I...>) {
  static constexpr TileFn* tiles[] = {&tile<NV, I + 1, kPartial>...};
  return tiles[rows - 1];
}
inline TileFn* choose(int64_t columns, int64_t rows) {
  constexpr auto all = std::make_integer_sequence<int, kTileRows>{};
  if (columns == kTileLanes) return choose<kVectors, false>(rows, all);
  if (columns == kTileLanes / 2) return choose<kVectors / 2, false>(rows, all);
  return columns < kTileLanes / 2 ? choose<kVectors / 2, true>(rows, all) : choose<kVectors, true>(rows, all);
}

}  // namespace small_product

inline void multiply(const SmallProduct& p) {
  using namespace small_product;
  for (int64_t v = 0; v < p.v_size; v += kTileLanes) {
    const int64_t columns = std::min<int64_t>(kTileLanes, p.v_size - v);
    for (int64_t w = 0; w < p.w_size; w += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, p.w_size - w);
      choose(columns, rows)(p, v, w, columns);
    }
  }
}

// Whether the reference's BLAS gets this product and computes every output by the chain.
inline bool uses_chain(const Profile& profile, char transa, char transb, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb) {
  if (!suits_blas(transa, transb, m, n, k, lda, ldb)) return false;
  const BlasRule& rule = *profile.blas->find(BlasRoutine::kGemm, transa, m, n, k);
  const auto chain = [](const SumOrder& order) { return order.lanes == 1 && order.accumulators == 1; };
  return chain(rule.order) && (n % 2 == 0 || chain(rule.odd_last_column));
}

// The product by BLAS, or by torch's own loops where rows of a side overlap (an expanded key, say).
inline void multiply_any(const Profile& profile, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
                         int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  const GemmCall call{transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, 1, ldc, c, ldc};
  if (suits_blas(transa, transb, m, n, k, lda, ldb)) gemm_serial(profile, call);
  else gemm_loops(profile, call);
}

// All rows of one head, transposed in panels: element (row, k) at [row / kTileLanes][k][row % kTileLanes].
struct TransposedRows {
  float* data;
  int64_t depth;

  static int64_t floats(int64_t rows, int64_t depth) {
    return (rows + small_product::kTileLanes - 1) / small_product::kTileLanes * small_product::kTileLanes * depth;
  }
  void pack(const float* rows, int64_t stride, int64_t count) const {
    using small_product::kTileLanes;
    for (int64_t row = 0; row < count; row += kTileLanes) {
      const int64_t columns = std::min<int64_t>(kTileLanes, count - row);
      gemm::pack({rows + row * stride, stride, true}, columns, columns, depth, kTileLanes, data + row * depth);
    }
  }
  // The panels from `row` on, a multiple of kTileLanes.
  const float* panels(int64_t row) const { return data + row * depth; }
};

// scores[w, v] = alpha * w_rows[w] . rows[v] for v in [first, first + columns); of those only the first `needed` must be right.
// `rows` and `packed` hold the same rows. sgemm('T', 'N', columns, w_size, depth).
inline void row_products(const Profile& profile, const TransposedRows& packed, const float* rows, int64_t row_stride, int64_t first,
                         int64_t columns, int64_t needed, const float* w_rows, int64_t w_stride, int64_t w_size, float alpha,
                         float* scores) {
  if (!uses_chain(profile, 'T', 'N', columns, w_size, packed.depth, row_stride, w_stride)) {
    return multiply_any(profile, 'T', 'N', columns, w_size, packed.depth, alpha, rows + first * row_stride, row_stride, w_rows, w_stride,
                        0.0f, scores, columns);
  }
  multiply({packed.panels(first), small_product::kTileLanes, small_product::kTileLanes * packed.depth, w_rows, w_stride, 1, scores,
            columns, needed, w_size, packed.depth, alpha, false});
}

// out[w] (+)= alpha * sum over k of weights[w, k] * rows[k], rows of d elements. sgemm('N', 'N', d, w_size, depth).
inline void weighted_rows(const Profile& profile, const float* rows, int64_t row_stride, int64_t d, const float* weights,
                          int64_t weight_stride, int64_t w_size, int64_t depth, float alpha, bool accumulate, float* out,
                          int64_t out_stride) {
  if (!uses_chain(profile, 'N', 'N', d, w_size, depth, row_stride, weight_stride)) {
    return multiply_any(profile, 'N', 'N', d, w_size, depth, alpha, rows, row_stride, weights, weight_stride, accumulate ? 1.0f : 0.0f,
                        out, out_stride);
  }
  multiply({rows, row_stride, small_product::kTileLanes, weights, weight_stride, 1, out, out_stride, d, w_size, depth, alpha, accumulate});
}

// out[w] += alpha * sum over k of weights[k, w] * rows[k]. sgemm('N', 'T', d, w_size, depth).
inline void transposed_weighted_rows(const Profile& profile, const float* rows, int64_t row_stride, int64_t d, const float* weights,
                                     int64_t weight_stride, int64_t w_size, int64_t depth, float alpha, float* out,
                                     int64_t out_stride) {
  if (!uses_chain(profile, 'N', 'T', d, w_size, depth, row_stride, weight_stride)) {
    return multiply_any(profile, 'N', 'T', d, w_size, depth, alpha, rows, row_stride, weights, weight_stride, 1.0f, out, out_stride);
  }
  multiply({rows, row_stride, small_product::kTileLanes, weights, 1, weight_stride, out, out_stride, d, w_size, depth, alpha, true});
}

}  // namespace densecore::DENSECORE_ISA
