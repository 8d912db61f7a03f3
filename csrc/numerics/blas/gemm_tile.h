// The register tile of the matrix product and the packing that feeds it.
//
// A tile is R rows of NV vectors. Each output is one accumulator; every step of k is one fused multiply-add, k ascending. The
// vector side of the tile reads a panel of NV * kWidth values for each k, the other side R values that are broadcast.
#pragma once

#include <cstdint>
#include <utility>

#include "../lanes.h"
#include "../transpose_groups.h"

namespace densecore::DENSECORE_ISA::gemm {

using Vector = F32<kWidth>;

inline constexpr int kVectors = 2;  // NV of a full panel
// Rows of a full tile: accumulators (R * 2), two panel vectors and one broadcast fill 32 registers (16 on AVX2 and SSE2).
#if defined(__AVX512F__)
inline constexpr int kRows = 14;
#elif defined(__aarch64__)
inline constexpr int kRows = 12;
#elif defined(__AVX2__)
inline constexpr int kRows = 6;
#else
inline constexpr int kRows = 4;
#endif
inline constexpr int kPanel = kVectors * kWidth;

// One step of k: the vectors at v times element(r) of each row, added to the sums.
template <int NV, int R, class Element>
DENSECORE_INLINE void add_products(const float* v, const Element& element, Vector (&sum)[R][NV]) {
  Vector value[NV];
#pragma GCC unroll 4
  for (int j = 0; j < NV; ++j) value[j] = load<Vector>(v + j * kWidth);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const Vector row = splat<Vector>(element(r));
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) sum[r][j] = fma(value[j], row, sum[r][j]);
  }
}

template <int NV, int R>
DENSECORE_INLINE void store_sums(const Vector (&sum)[R][NV], float* out, int64_t stride) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) store(out + r * stride + j * kWidth, sum[r][j]);
  }
}

// out = in + the chain over `depth` values of k, in registers; in == nullptr starts at zero. The rows of `in` and `out` are
// in_stride and out_stride apart.
using TileFn = void(int64_t depth, const float* panel, const float* rows, const float* in, int64_t in_stride, float* out,
                    int64_t out_stride);

template <int NV, int R>
void tile(int64_t depth, const float* panel, const float* rows, const float* in, int64_t in_stride, float* out,
          int64_t out_stride) {
  Vector sum[R][NV];
  if (in == nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[r][j] = Vector{};
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[r][j] = load<Vector>(in + r * in_stride + j * kWidth);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    add_products(panel, [&](int r) __attribute__((always_inline)) { return rows[r]; }, sum);
    panel += NV * kWidth;
    rows += R;
  }
  store_sums(sum, out, out_stride);
}

// The same of operands where they lie, starting at zero: the vector side has v_step floats from one k to the next; the other side's rows
// are w_stride apart and contiguous along k (kAlong), or side by side and w_stride from one k to the next.
using UnpackedTileFn = void(int64_t depth, const float* v, int64_t v_step, const float* w, int64_t w_stride, float* out, int64_t out_stride);

template <int NV, int R, bool kAlong>
void unpacked_tile(int64_t depth, const float* v, int64_t v_step, const float* w, int64_t w_stride, float* out, int64_t out_stride) {
  constexpr int kRowsPerBase = 4;  // reached from one address by adding 0, 1, 2 and 3 strides
  const float* base[(R + kRowsPerBase - 1) / kRowsPerBase];
  for (int r = 0; r < R; r += kRowsPerBase) base[r / kRowsPerBase] = w + r * (kAlong ? w_stride : 1);
  int64_t stride = w_stride, three_strides = 3 * w_stride;
  asm("" : "+r"(stride), "+r"(three_strides));  // else gcc keeps an address for every row, which do not fit its registers
  const auto element = [&](int r) __attribute__((always_inline)) {
    const float* from = base[r / kRowsPerBase];
    if constexpr (!kAlong) return from[r % kRowsPerBase];
    switch (r % kRowsPerBase) {
      case 0: return from[0];
      case 1: return from[stride];
      case 2: return from[2 * stride];
      default: return from[three_strides];
    }
  };
  Vector sum[R][NV] = {};
  for (int64_t k = 0; k < depth; ++k) {
    add_products(v, element, sum);
    v += v_step;
#pragma GCC unroll 4
    for (const float*& from : base) {
      from += kAlong ? 1 : w_stride;
      asm("" : "+r"(from));
    }
  }
  store_sums(sum, out, out_stride);
}

template <int NV, int... I>
TileFn* choose_tile(int rows, std::integer_sequence<int, I...>) {
  static constexpr TileFn* tiles[] = {&tile<NV, I + 1>...};
  return tiles[rows - 1];
}
// The tile of `vectors` (1 or 2) by `rows` (1..kRows).
inline TileFn* choose_tile(int vectors, int rows) {
  constexpr auto all = std::make_integer_sequence<int, kRows>{};
  return vectors == 1 ? choose_tile<1>(rows, all) : choose_tile<2>(rows, all);
}

template <int NV, bool kAlong, int... I>
UnpackedTileFn* choose_unpacked_tile(int64_t rows, std::integer_sequence<int, I...>) {
  static constexpr UnpackedTileFn* tiles[] = {&unpacked_tile<NV, I + 1, kAlong>...};
  return tiles[rows - 1];
}

// ---- packing -------------------------------------------------------------------------------------------------------------

template <int... I>
DENSECORE_INLINE auto interleave(F32<sizeof...(I)> a, F32<sizeof...(I)> b, bool high, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  // Within each group of 4 lanes: a0 b0 a1 b1 (low) or a2 b2 a3 b3 (high).
  return high ? __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + 2 + I % 2 * n)...)
              : __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + I % 2 * n)...);
}
template <int... I>
DENSECORE_INLINE auto halves(F32<sizeof...(I)> a, F32<sizeof...(I)> b, bool high, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  // Within each group of 4 lanes: a0 a1 b0 b1 (low) or a2 a3 b2 b3 (high).
  return high ? __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + 2 + I % 4 / 2 * n)...)
              : __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + I % 4 / 2 * n)...);
}

template <int... I>
DENSECORE_INLINE auto concatenate(F32<sizeof...(I) / 2> a, F32<sizeof...(I) / 2> b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// N lanes made of 4-float pieces, one at `first` and the others each `step` further. In registers: joined through memory, a wide
// load would wait for the narrow stores before it.
template <int N>
DENSECORE_INLINE F32<N> gather_pieces(const float* first, int64_t step) {
  if constexpr (N == 4) {
    return load<F32<4>>(first);
  } else {
    return concatenate(gather_pieces<N / 2>(first, step), gather_pieces<N / 2>(first + N / 8 * step, step),
                       std::make_integer_sequence<int, N>{});
  }
}

// Within each group of 4 lanes: lane j of piece[i] becomes lane i of out[j].
DENSECORE_INLINE void turn_four(const Vector piece[4], Vector out[4]) {
  constexpr auto lanes = std::make_integer_sequence<int, kWidth>{};
  const Vector low_01 = interleave(piece[0], piece[1], false, lanes), high_01 = interleave(piece[0], piece[1], true, lanes);
  const Vector low_23 = interleave(piece[2], piece[3], false, lanes), high_23 = interleave(piece[2], piece[3], true, lanes);
  out[0] = halves(low_01, low_23, false, lanes);
  out[1] = halves(low_01, low_23, true, lanes);
  out[2] = halves(high_01, high_23, false, lanes);
  out[3] = halves(high_01, high_23, true, lanes);
}

// out[i] holds element k = i of kWidth rows that are `stride` apart.
DENSECORE_INLINE void transpose_four(const float* rows, int64_t stride, Vector out[4]) {
  Vector piece[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) piece[r] = gather_pieces<kWidth>(rows + r * stride, 4 * stride);
  turn_four(piece, out);
}

// The same for kWidth values of k: each row's part is read once, as a whole (rows a power of two apart share few places in the cache).
DENSECORE_INLINE void transpose_square(const float* rows, int64_t stride, Vector out[kWidth]) {
  const float* first[kWidth / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kWidth / 4; ++i) {
    first[i] = rows + 4 * i * stride;
    asm("" : "+r"(first[i]));  // else gcc keeps an address for every row, which do not fit its registers
  }
  Vector piece[kWidth / 4][4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    Vector part[kWidth / 4];
#pragma GCC unroll 4
    for (int i = 0; i < kWidth / 4; ++i) part[i] = load<Vector>(first[i] + r * stride);
    transpose_groups(part);
#pragma GCC unroll 4
    for (int q = 0; q < kWidth / 4; ++q) piece[q][r] = part[q];
  }
#pragma GCC unroll 4
  for (int q = 0; q < kWidth / 4; ++q) turn_four(piece[q], out + 4 * q);
}

// One side of the product: element (row, k) is data[row * stride + k] if along_k, else data[k * stride + row].
struct Side {
  const float* data;
  int64_t stride;
  bool along_k;
  const float* at(int64_t row, int64_t k) const { return data + (along_k ? row * stride + k : k * stride + row); }
};

// out[k * pitch + row] = element (row, k) for all rows and depth values of k.
inline void pack_scalar(Side side, int64_t rows, int64_t depth, int64_t pitch, float* out) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < depth; ++k) out[k * pitch + row] = *side.at(row, k);
  }
}

inline void pack_across(Side side, int64_t rows, int64_t depth, int64_t pitch, float* out) {
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = side.at(0, k);
    float* to = out + k * pitch;
    int64_t row = 0;
    for (; row + kWidth <= rows; row += kWidth) store(to + row, load<Vector>(from + row));
    for (; row + 4 <= rows; row += 4) store(to + row, load<F32<4>>(from + row));
    for (; row < rows; ++row) to[row] = from[row];
  }
}

// Whole groups of kWidth rows are transposed in registers. The last group may reach past `rows`: if the rows there can be read, it
// is transposed too, and what it writes too far is overwritten by later k (hence groups from last to first) or falls into the
// kWidth floats of slack after the packed rows.
inline void pack_along(Side side, int64_t rows, int64_t readable, int64_t depth, int64_t pitch, float* out) {
  const bool overshoot = pitch == rows && (rows + kWidth - 1) / kWidth * kWidth <= readable;
  const int64_t groups = (rows + (overshoot ? kWidth - 1 : 0)) / kWidth, done = groups * kWidth;
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4) {
    for (int64_t row = done - kWidth; row >= 0; row -= kWidth) {
      Vector column[4];
      transpose_four(side.at(row, k), side.stride, column);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store(out + (k + i) * pitch + row, column[i]);
    }
  }
  const int64_t packed = done < rows ? done : rows;
  pack_scalar({side.at(0, k), side.stride, true}, packed, depth - k, pitch, out + k * pitch);
  pack_scalar({side.at(packed, 0), side.stride, true}, rows - packed, depth, pitch, out + packed);
}

// The rows of one panel or tile for `depth` values of k, `pitch` floats for each k; `readable` rows exist from the first on.
inline void pack(Side side, int64_t rows, int64_t readable, int64_t depth, int64_t pitch, float* out) {
  if (side.along_k) pack_along(side, rows, readable, depth, pitch, out);
  else pack_across(side, rows, depth, pitch, out);
}

}  // namespace densecore::DENSECORE_ISA::gemm
