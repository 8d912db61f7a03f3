// Sums of float32. The four cases, which differ in how elements are dealt to partial sums, are SumKernel.cpp's; within a case the
// columns are independent, so a register holds as many as the host has lanes.
#include "SumKernel.h"

#include "cascade_sum.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int64_t kVector = 4;  // Vectorized<float>::size()
constexpr int64_t kPartials = 4;  // partial sums of a row (ilp_factor), rows of multi_row_sum
using Wide = F32<kWidth>;

struct Keep {
  template <class V>
  DENSECORE_INLINE V operator()(V v) const { return v; }
};
struct NanToZero {
  template <class V>
  DENSECORE_INLINE V operator()(V v) const { return select(is_nan(v), V{}, v); }
};

// Four elements `stride` bytes apart.
DENSECORE_INLINE F32<4> load_strided(const char* p, int64_t stride) {
  const auto at = [&](int64_t i) { return *reinterpret_cast<const float*>(p + i * stride); };
  return F32<4>{at(0), at(1), at(2), at(3)};
}
template <class V>
DENSECORE_INLINE V load_at(const char* p) {
  return load<V>(reinterpret_cast<const float*>(p));
}
DENSECORE_INLINE void add_to(char* out, float value) { *reinterpret_cast<float*>(out) += value; }

// row_sum's end: the partial sums, the first of which took the elements left over, added in order.
template <class V>
DENSECORE_INLINE V join_partials(const V (&partial)[kPartials]) {
  return ((partial[0] + partial[1]) + partial[2]) + partial[3];
}

// row_sum of one row of scalars.
template <class Map>
DENSECORE_INLINE float sum_strided_row(const char* in, int64_t stride, int64_t size, Map map) {
  const int64_t steps = size / kPartials;
  const auto sums = cascade_sum<F32<4>, 1>(steps, [&](int64_t i, int) { return map(load_strided(in + i * kPartials * stride, stride)); });
  float partial[kPartials];
  store(partial, sums.v[0]);
  for (int64_t i = steps * kPartials; i < size; ++i) partial[0] += map(F32<4>{*reinterpret_cast<const float*>(in + i * stride)})[0];
  return join_partials(partial);
}

// vectorized_inner_sum: the row as vectors of 4, those dealt to 4 partial vectors: 16 sums side by side.
template <class Map>
DENSECORE_INLINE float sum_contiguous_row(const char* in, int64_t size, Map map) {
  using Sixteen = F32<16>;
  const float* row = reinterpret_cast<const float*>(in);
  const int64_t vectors = size / kVector, steps = vectors / kPartials;
  const auto sums = cascade_sum<Sixteen, 1>(steps, [&](int64_t i, int) { return map(load<Sixteen>(row + i * 16)); });
  float lanes[16];
  store(lanes, sums.v[0]);
  F32<4> partial[kPartials];
  for (int k = 0; k < kPartials; ++k) partial[k] = load<F32<4>>(lanes + k * kVector);
  for (int64_t i = steps * kPartials; i < vectors; ++i) partial[0] = partial[0] + map(load<F32<4>>(row + i * kVector));
  const F32<4> total = join_partials(partial);
  float sum = 0.0f;
  for (int64_t i = vectors * kVector; i < size; ++i) sum += map(F32<4>{row[i]})[0];
  for (int k = 0; k < kVector; ++k) sum += total[k];
  return sum;
}

// A block of columns in order: U registers from column j.
template <int U, class Map>
DENSECORE_INLINE void sum_columns(const char* in, int64_t stride, int64_t rows, Map map, char* out, int64_t out_stride) {
  const auto sums = cascade_sum<Wide, U>(rows, [&](int64_t i, int u) { return map(load_at<Wide>(in + i * stride + u * sizeof(Wide))); });
  for (int64_t k = 0; k < U * kWidth; ++k) add_to(out + k * out_stride, sums.v[k / kWidth][k % kWidth]);
}

// The columns that do not fill 4 vectors: each is a row_sum of its own, with the rows dealt to 4 partial sums.
template <class Map>
DENSECORE_INLINE void sum_last_columns(const char* in, int64_t stride, int64_t rows, int64_t columns, Map map, char* out,
                                       int64_t out_stride) {
  const auto row = [&](int64_t i) { return map(load_partial<Wide>(reinterpret_cast<const float*>(in + i * stride), columns)); };
  const int64_t steps = rows / kPartials;
  auto sums = cascade_sum<Wide, kPartials>(steps, [&](int64_t i, int u) { return row(i * kPartials + u); });
  for (int64_t i = steps * kPartials; i < rows; ++i) sums.v[0] = sums.v[0] + row(i);
  const Wide total = join_partials(sums.v);
  for (int64_t k = 0; k < columns; ++k) add_to(out + k * out_stride, total[k]);
}

template <class Map>
void vectorized_outer_sum(const char* in, int64_t stride, int64_t rows, int64_t columns, Map map, char* out, int64_t out_stride) {
  constexpr int64_t kBlock = kVector * kPartials;
  const int64_t in_blocks = columns / kBlock * kBlock;
  int64_t j = 0;
  for (; j + 4 * kWidth <= in_blocks; j += 4 * kWidth) {
    sum_columns<4>(in + j * sizeof(float), stride, rows, map, out + j * out_stride, out_stride);
  }
  for (; j < in_blocks; j += kWidth) {
    sum_columns<1>(in + j * sizeof(float), stride, rows, map, out + j * out_stride, out_stride);
  }
  for (; j < columns; j += kWidth) {
    const int64_t count = columns - j < kWidth ? columns - j : kWidth;
    sum_last_columns(in + j * sizeof(float), stride, rows, count, map, out + j * out_stride, out_stride);
  }
}

template <class Map>
void scalar_outer_sum(const char* in, const int64_t* in_strides, int64_t rows, int64_t columns, Map map, char* out,
                      int64_t out_stride) {
  int64_t j = 0;
  for (; j + kPartials <= columns; j += kPartials) {
    const char* first = in + j * in_strides[1];
    const auto sums = cascade_sum<F32<4>, 1>(rows, [&](int64_t i, int) { return map(load_strided(first + i * in_strides[0], in_strides[1])); });
    for (int64_t k = 0; k < kPartials; ++k) add_to(out + (j + k) * out_stride, sums.v[0][k]);
  }
  for (; j < columns; ++j) add_to(out + j * out_stride, sum_strided_row(in + j * in_strides[1], in_strides[0], rows, map));
}

// No reduced dimension in this loop: out += in.
template <class Map>
void add_elements(char* const* data, const int64_t* strides, int64_t size0, int64_t size1, Map map) {
  for (int64_t j = 0; j < size1; ++j) {
    for (int64_t i = 0; i < size0; ++i) {
      float& out = *reinterpret_cast<float*>(data[0] + j * strides[2] + i * strides[0]);
      const float value = *reinterpret_cast<const float*>(data[1] + j * strides[3] + i * strides[1]);
      out = map(F32<4>{out})[0] + map(F32<4>{value})[0];
    }
  }
}

template <class Map>
void sum_loop_of(char* const* data, const int64_t* strides, int64_t size0, int64_t size1, Map map) {
  if (strides[0] != 0 && strides[2] != 0) return add_elements(data, strides, size0, size1, map);
  const bool swapped = strides[0] != 0;  // the reduced dimension goes first
  const int64_t in_strides[2] = {strides[swapped ? 3 : 1], strides[swapped ? 1 : 3]};
  const int64_t out_stride = strides[swapped ? 0 : 2];
  const int64_t rows = swapped ? size1 : size0, columns = swapped ? size0 : size1;
  char* out = data[0];
  const char* in = data[1];
  constexpr int64_t kContiguous = sizeof(float);
  if (in_strides[0] == kContiguous && rows >= kVector) {
    for (int64_t j = 0; j < columns; ++j) add_to(out + j * out_stride, sum_contiguous_row(in + j * in_strides[1], rows, map));
  } else if (in_strides[1] == kContiguous && columns >= kVector) {
    vectorized_outer_sum(in, in_strides[0], rows, columns, map, out, out_stride);
  } else if (in_strides[0] < in_strides[1]) {
    for (int64_t j = 0; j < columns; ++j) add_to(out + j * out_stride, sum_strided_row(in + j * in_strides[1], in_strides[0], rows, map));
  } else {
    scalar_outer_sum(in, in_strides, rows, columns, map, out, out_stride);
  }
}

}  // namespace

void sum_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  sum_loop_of(data, strides, size0, size1, Keep{});
}
void nansum_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  sum_loop_of(data, strides, size0, size1, NanToZero{});
}

}  // namespace densecore::DENSECORE_ISA
