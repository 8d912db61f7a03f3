// Products read where they lie, because packing would cost more than it gains: few rows (a generated token, a single sample), and
// matrices that fit the nearest caches (a head's part of attention).
#pragma once

#include "../host_threads.h"
#include "../scratch.h"
#include "gemm_product.h"

namespace densecore::DENSECORE_ISA::gemm {

// ---- few rows ------------------------------------------------------------------------------------------------------------------

inline constexpr int64_t kThinRows = 3;

// out[i] holds element k = i of kWidth rows, for N values of k: kWidth, 4 or 1. `data` is element 0 of the first row.
template <bool kAlong, int N>
DENSECORE_INLINE void load_columns(const float* data, int64_t stride, Vector out[N]) {
  if constexpr (!kAlong) {
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) out[i] = load<Vector>(data + i * stride);
  } else if constexpr (N == kWidth) {
    transpose_square(data, stride, out);
  } else if constexpr (N == 4) {
    transpose_four(data, stride, out);
  } else {
    for (int lane = 0; lane < kWidth; ++lane) out[0][lane] = data[lane * stride];
  }
}

// The few rows, contiguous along k and `stride` apart.
struct FewRows {
  const float* data;
  int64_t stride;
};
inline FewRows few_rows(const Side& side, int64_t rows, int64_t depth) {
  if (side.along_k) return {side.data, side.stride};
  float* copy = thread_scratch(Scratch::kGemm, rows * depth);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < depth; ++k) copy[r * depth + k] = *side.at(r, k);
  }
  return {copy, depth};
}

// G groups of kWidth rows from `v` on with R rows of the other side. A group that would pass the edge ends there and repeats rows of the
// one before. With kLone also the row after the groups, which would leave a group nearly empty (a vocabulary of 50257 or 65): its chain
// runs in the shadow of the others.
template <bool kAlong, int G, int R, bool kLone = false>
void thin_tile(const Product& product, FewRows few, int64_t v) {
  const int64_t depth = product.depth, stride = product.v_side.stride, v_step = kAlong ? stride : 1, k_step = kAlong ? 1 : stride;
  const float* const v_data = product.v_side.data;
  int64_t first[G];
  for (int g = 0; g < G; ++g) first[g] = smaller(v + g * kWidth, product.v_size - kWidth);
  Vector sum[G][R] = {};
  float lone = 0;
  const auto steps = [&]<int N>(std::integral_constant<int, N>, int64_t k) __attribute__((always_inline)) {
    const float* const w = few.data + k;
    if constexpr (kLone) {
      const float* const row = v_data + (v + G * kWidth) * v_step + k * k_step;
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) lone = fma(row[i * k_step], w[i], lone);
    }
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      Vector column[N];
      load_columns<kAlong, N>(v_data + first[g] * v_step + k * k_step, stride, column);
#pragma GCC unroll 16
      for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[g][r] = fma(column[i], splat<Vector>(w[r * few.stride + i]), sum[g][r]);
      }
    }
  };
  int64_t k = 0;
  for (; k + kWidth <= depth; k += kWidth) steps(std::integral_constant<int, kWidth>{}, k);
  for (; k + 4 <= depth; k += 4) steps(std::integral_constant<int, 4>{}, k);
  for (; k < depth; ++k) steps(std::integral_constant<int, 1>{}, k);
  for (int g = 0; g < G; ++g) {
    const int64_t row = v + g * kWidth, repeated = row - first[g];
    if (row >= product.v_size) break;
    alignas(64) float tile[kTileRows * kPanel];
    for (int r = 0; r < R; ++r) store(tile + r * kPanel, sum[g][r]);
    write_tile(product.out, tile + repeated, row, 0, kWidth - repeated, R);
  }
  if constexpr (kLone) write_one(product.out, lone, v + G * kWidth, 0);
}

template <bool kAlong, int G>
inline void multiply_thin(const Product& product, bool parallel) {
  constexpr int64_t step = G * kWidth;
  constexpr void (*tiles[])(const Product&, FewRows, int64_t) = {&thin_tile<kAlong, G, 1>, &thin_tile<kAlong, G, 2>, &thin_tile<kAlong, G, 3>};
  const FewRows few = few_rows(product.w_side, product.w_size, product.depth);
  const bool lone = product.w_size == 1 && product.v_size % step == 1;
  const int64_t tasks = lone ? product.v_size / step : ceil_div(product.v_size, step);
  run(parallel, tasks, [&](int64_t task) {
    if (lone && task == tasks - 1) thin_tile<kAlong, G, 1, true>(product, few, task * step);
    else tiles[product.w_size - 1](product, few, task * step);
  });
}

inline bool is_thin(const Product& product) { return product.w_size <= kThinRows && product.v_size >= kWidth; }

// One group keeps the shuffles that turn rows busy; columns need several chains side by side to hide an fma's latency.
inline void multiply_thin(const Product& product, bool parallel) {
  if (product.v_side.along_k) multiply_thin<true, 1>(product, parallel);
  else multiply_thin<false, 4>(product, parallel);
}

// ---- small matrices ------------------------------------------------------------------------------------------------------------

// Of both sides. Up to about here reading in place is faster, measured at each width; narrow tiles read a matrix more often.
inline constexpr int64_t kSmallFloats = 64 * kWidth * kWidth * kWidth;

// A vector that would pass the edge ends there and computes some elements again, hence no D that may be the output.
inline bool is_small(const Product& product) {
  return product.out.beta == 0 && product.v_size >= kWidth && (product.v_size + product.w_size) * product.depth <= kSmallFloats;
}

// Vectors of the vector side, side by side: `v` is the first element, `data` its place for k = 0, `step` the way to the next k.
struct Vectors {
  int count;
  int64_t v;
  const float* data;
  int64_t step;
};

inline Vectors vectors_at(const Product& product, int64_t v) {
  const Side& side = product.v_side;
  const int count = product.v_size >= kPanel && product.v_size - v > kWidth ? kVectors : 1;
  const int64_t first = smaller(v, product.v_size - count * kWidth);
  if (!side.along_k) return {count, first, side.at(first, 0), side.stride};
  float* panel = thread_scratch(Scratch::kGemm, kPanel * product.depth + kWidth);
  pack({side.at(first, 0), side.stride, true}, count * kWidth, count * kWidth, product.depth, count * kWidth, panel);
  return {count, first, panel, count * kWidth};
}

inline UnpackedTileFn* choose_unpacked_tile(int vectors, int64_t rows, bool along_k) {
  constexpr auto all = std::make_integer_sequence<int, kRows>{};
  if (along_k) return vectors == 1 ? choose_unpacked_tile<1, true>(rows, all) : choose_unpacked_tile<2, true>(rows, all);
  return vectors == 1 ? choose_unpacked_tile<1, false>(rows, all) : choose_unpacked_tile<2, false>(rows, all);
}

// The elements at these vectors for rows [row, row + rows), at most kRows.
inline void multiply_tile(const Product& product, const Vectors& at, int64_t row, int64_t rows) {
  const Side& side = product.w_side;
  const Output& out = product.out;
  UnpackedTileFn* tile = choose_unpacked_tile(at.count, rows, side.along_k);
  if (out.plain() && out.v_stride == 1) {
    return tile(product.depth, at.data, at.step, side.at(row, 0), side.stride, out.data + at.v + row * out.w_stride, out.w_stride);
  }
  alignas(64) float sums[kTileRows * kPanel];
  tile(product.depth, at.data, at.step, side.at(row, 0), side.stride, sums, kPanel);
  write_tile(out, sums, at.v, row, at.count * kWidth, rows);
}

// Shared out as panels times ranges of tiles, a few for each thread.
inline void multiply_small(const Product& product, bool parallel) {
  constexpr int64_t kTasksPerThread = 4;
  const int64_t step = product.v_size < kPanel ? kWidth : kPanel, panels = ceil_div(product.v_size, step);
  const int64_t tiles = ceil_div(product.w_size, kRows);
  const int64_t ranges = parallel ? smaller(tiles, ceil_div(kTasksPerThread * host_threads(), panels)) : 1;
  run(parallel, panels * ranges, [&](int64_t task) {
    const Vectors at = vectors_at(product, task / ranges * step);
    const int64_t end = part_begin(tiles, ranges, task % ranges + 1);
    for (int64_t t = part_begin(tiles, ranges, task % ranges); t < end; ++t) {
      const int64_t row = part_begin(product.w_size, tiles, t);
      multiply_tile(product, at, row, part_begin(product.w_size, tiles, t + 1) - row);
    }
  });
}

}  // namespace densecore::DENSECORE_ISA::gemm
