// A product as the tiles see it: its two sides, and where its elements go.
#pragma once

#include "../parallel.h"
#include "gemm_tile.h"

namespace densecore::DENSECORE_ISA::gemm {

inline constexpr int64_t kTileRows = (kRows + kWidth - 1) / kWidth * kWidth;  // of a tile in memory, so that it can be turned in whole vectors

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }
constexpr int64_t smaller(int64_t x, int64_t y) { return x < y ? x : y; }
constexpr int64_t larger(int64_t x, int64_t y) { return x > y ? x : y; }
// `size` split into `count` parts whose sizes differ by at most one: where part i begins.
constexpr int64_t part_begin(int64_t size, int64_t count, int64_t i) { return size * i / count; }

template <class F>
void run(bool parallel, int64_t count, const F& body) {
  if (parallel) return parallel_run(count, body);
  for (int64_t i = 0; i < count; ++i) body(i);
}

// The output as the tile sees it: element (v, w) is data[v * v_stride + w * w_stride].
struct Output {
  float* data;
  int64_t v_stride;
  int64_t w_stride;
  const float* addend;
  int64_t addend_v;
  int64_t addend_w;
  float alpha;
  float beta;

  bool plain() const { return alpha == 1 && beta == 0; }
};

// Writes `count` sums side by side; d is not read if beta is 0.
DENSECORE_INLINE void write_row(const Output& out, const float* sums, float* c, const float* d, int64_t count) {
  const bool add = out.beta != 0;
  int64_t i = 0;
  const auto write = [&]<class V>(V) {
    const V alpha = splat<V>(out.alpha), beta = splat<V>(out.beta);
    for (; i + lane_count<V> <= count; i += lane_count<V>) {
      const V sum = load<V>(sums + i);
      store(c + i, add ? fma(alpha, sum, beta * load<V>(d + i)) : alpha * sum);
    }
  };
  write(Vector{});
  write(F32<4>{});
  for (; i < count; ++i) c[i] = add ? fma(out.alpha, sums[i], out.beta * d[i]) : out.alpha * sums[i];
}

inline void write_one(const Output& out, float sum, int64_t v, int64_t w) {
  const float* d = out.addend + v * out.addend_v + w * out.addend_w;
  out.data[v * out.v_stride + w * out.w_stride] = out.beta == 0 ? out.alpha * sum : fma(out.alpha, sum, out.beta * *d);
}

// Writes the first `columns` lanes of each of `rows` tile rows, which are kPanel apart.
inline void write_tile(const Output& out, const float* tile, int64_t v, int64_t w, int64_t columns, int64_t rows) {
  float* c = out.data + v * out.v_stride + w * out.w_stride;
  const float* d = out.addend + v * out.addend_v + w * out.addend_w;
  if (out.v_stride == 1 && (out.beta == 0 || out.addend_v == 1)) {
    for (int64_t r = 0; r < rows; ++r) write_row(out, tile + r * kPanel, c + r * out.w_stride, d + r * out.addend_w, columns);
    return;
  }
  if (out.w_stride == 1 && (out.beta == 0 || out.addend_w == 1)) {
    alignas(64) float turned[kPanel * kTileRows];
    for (int64_t i = 0; i < columns; i += 4) {
      for (int64_t r = 0; r < rows; r += kWidth) {
        Vector column[4];
        transpose_four(tile + r * kPanel + i, kPanel, column);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) store(turned + (i + j) * kTileRows + r, column[j]);
      }
    }
    for (int64_t i = 0; i < columns; ++i) write_row(out, turned + i * kTileRows, c + i * out.v_stride, d + i * out.addend_v, rows);
    return;
  }
  for (int64_t i = 0; i < columns; ++i) {
    for (int64_t r = 0; r < rows; ++r) write_one(out, tile[r * kPanel + i], v + i, w + r);
  }
}

// A product with its sides named by their part in the tile: v is spread over lanes, w is broadcast.
struct Product {
  Side v_side;
  Side w_side;
  int64_t v_size;
  int64_t w_size;
  int64_t depth;
  Output out;
};

}  // namespace densecore::DENSECORE_ISA::gemm
