// Products and extremes: binary_kernel_reduce_vec of ATen/native/cpu/Reduce.h. A contiguous row is reduced on 4 vectors of 4 lanes,
// which are joined in pairs, then lane by lane; the elements left over, and layouts that are not contiguous, go one by one.
#include "../lanes.h"
#include "ReduceOpsKernel.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int64_t kBlock = 16;  // 4 vectors of 4 lanes
using Block = F32<kBlock>;
using Group = F32<4>;
using Wide = F32<kWidth>;
constexpr int64_t kContiguous = sizeof(float);

// `vector` is what the vector loop does to two values, `scalar` what the loop over single elements does.
// `plain` is a cheaper `vector` that may differ where the result is NaN or a zero; without NaN and zeros both are the same.
struct Product {
  static constexpr bool kHasPlain = false;
  template <class V>
  DENSECORE_INLINE static V vector(V a, V b) { return a * b; }
  template <class V>
  DENSECORE_INLINE static V scalar(V a, V b) { return a * b; }
};
struct Maximum {
  static constexpr bool kHasPlain = true;
  template <class V>
  DENSECORE_INLINE static V plain(V a, V b) { return select(a > b, a, b); }
  template <class V>
  DENSECORE_INLINE static V vector(V a, V b) { return max_arm(a, b); }
  template <class V>
  DENSECORE_INLINE static V scalar(V a, V b) { return select(is_nan(a) | is_nan(b), a + b, select(a < b, b, a)); }
};
struct Minimum {
  static constexpr bool kHasPlain = true;
  template <class V>
  DENSECORE_INLINE static V plain(V a, V b) { return select(a < b, a, b); }
  template <class V>
  DENSECORE_INLINE static V vector(V a, V b) { return min_arm(a, b); }
  template <class V>
  DENSECORE_INLINE static V scalar(V a, V b) { return select(is_nan(a) | is_nan(b), a + b, select(b < a, b, a)); }
};

template <class Op>
DENSECORE_INLINE float scalar_of(float a, float b) {
  return Op::scalar(Group{a}, Group{b})[0];
}

// Lane by lane over n elements, n a positive multiple of V's lanes. The sum of all elements is NaN if one of them is (or if they
// overflow, which costs the second pass and no more).
template <class Op, class V>
DENSECORE_INLINE V reduce_lanes(const float* x, int64_t n) {
  V acc = load<V>(x);
  if constexpr (Op::kHasPlain) {
    V best = acc, sum = acc;
    for (int64_t i = lane_count<V>; i < n; i += lane_count<V>) {
      const V v = load<V>(x + i);
      best = Op::plain(best, v);
      sum = sum + v;
    }
    if (!any(is_nan(sum) | (best == 0.0f))) return best;
  }
  for (int64_t i = lane_count<V>; i < n; i += lane_count<V>) acc = Op::vector(acc, load<V>(x + i));
  return acc;
}

template <class Op>
DENSECORE_INLINE float reduce_contiguous(const float* row, int64_t n, float out) {
  const int64_t in_blocks = n / kBlock * kBlock;
  if (in_blocks > 0) {
    float lanes[kBlock];
    store(lanes, reduce_lanes<Op, Block>(row, in_blocks));
    const auto group = [&](int k) { return load<Group>(lanes + 4 * k); };
    const Group joined = Op::vector(Op::vector(group(0), group(1)), Op::vector(group(2), group(3)));
    float value = joined[0];
    for (int k = 1; k < 4; ++k) value = scalar_of<Op>(value, joined[k]);
    out = scalar_of<Op>(out, value);
  }
  for (int64_t i = in_blocks; i < n; ++i) out = scalar_of<Op>(out, row[i]);
  return out;
}

// Columns that are neighbours in the input and in the output: blocks of 16 on vectors, the output taken last; others one by one,
// the output taken first.
template <class Op, int U>
DENSECORE_INLINE void reduce_column_block(const float* in, int64_t stride, int64_t rows, float* target) {
  const auto at = [&](int64_t i, int u) { return reinterpret_cast<const float*>(reinterpret_cast<const char*>(in) + i * stride) + u * kWidth; };
  Wide acc[U];
  for (int u = 0; u < U; ++u) acc[u] = load<Wide>(at(0, u));
  for (int64_t i = 1; i < rows; ++i) {
    for (int u = 0; u < U; ++u) acc[u] = Op::vector(acc[u], load<Wide>(at(i, u)));
  }
  for (int u = 0; u < U; ++u) store(target + u * kWidth, Op::vector(acc[u], load<Wide>(target + u * kWidth)));
}
template <class Op>
DENSECORE_INLINE void reduce_columns(char* out, const char* in, int64_t stride, int64_t rows, int64_t columns) {
  float* target = reinterpret_cast<float*>(out);
  const auto at = [&](int64_t i, int64_t j) { return reinterpret_cast<const float*>(in + i * stride) + j; };
  const int64_t in_blocks = columns / kBlock * kBlock;
  int64_t j = 0;
  for (; j + 4 * kWidth <= in_blocks; j += 4 * kWidth) reduce_column_block<Op, 4>(at(0, j), stride, rows, target + j);
  for (; j < in_blocks; j += kWidth) reduce_column_block<Op, 1>(at(0, j), stride, rows, target + j);
  for (; j < columns; j += kWidth) {
    const int64_t count = columns - j < kWidth ? columns - j : kWidth;
    Wide acc = load_partial<Wide>(target + j, count);
    for (int64_t i = 0; i < rows; ++i) acc = Op::scalar(acc, load_partial<Wide>(at(i, j), count));
    store_partial(target + j, acc, count);
  }
}

template <class Op>
DENSECORE_INLINE void reduce_elements(char* out, const char* in, const int64_t* strides, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float& value = *reinterpret_cast<float*>(out + i * strides[0]);
    value = scalar_of<Op>(value, *reinterpret_cast<const float*>(in + i * strides[1]));
  }
}

template <class Op>
DENSECORE_INLINE void reduce_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  const bool reduced = strides[0] == 0;
  if (reduced && strides[1] != kContiguous && strides[2] == kContiguous && strides[3] == kContiguous) {
    return reduce_columns<Op>(data[0], data[1], strides[1], size0, size1);
  }
  for (int64_t j = 0; j < size1; ++j) {
    char* out = data[0] + j * strides[2];
    const char* in = data[1] + j * strides[3];
    if (reduced && strides[1] == kContiguous) {
      float& value = *reinterpret_cast<float*>(out);
      value = reduce_contiguous<Op>(reinterpret_cast<const float*>(in), size0, value);
    } else {
      reduce_elements<Op>(out, in, strides, size0);
    }
  }
}

// The vector operation throughout, whose result does not depend on the order.
template <class Op>
DENSECORE_INLINE float reduce_range(const float* x, int64_t n) {
  const auto one = [](float a, float b) { return Op::vector(Group{a}, Group{b})[0]; };
  const int64_t in_vectors = n / kWidth * kWidth;
  float value = x[0];
  if (in_vectors > 0) {
    const Wide acc = reduce_lanes<Op, Wide>(x, in_vectors);
    for (int k = 0; k < kWidth; ++k) value = one(value, acc[k]);
  }
  for (int64_t i = in_vectors; i < n; ++i) value = one(value, x[i]);
  return value;
}

template <class Op>
float join_ranges(const float* ranges, int count) {
  float value = ranges[0];
  for (int i = 1; i < count; ++i) value = scalar_of<Op>(value, ranges[i]);
  return value;
}

}  // namespace

float max_range(const float* x, int64_t n) { return reduce_range<Maximum>(x, n); }
float min_range(const float* x, int64_t n) { return reduce_range<Minimum>(x, n); }
float max_join(const float* ranges, int count) { return join_ranges<Maximum>(ranges, count); }
float min_join(const float* ranges, int count) { return join_ranges<Minimum>(ranges, count); }

void prod_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  reduce_loop<Product>(data, strides, size0, size1);
}
void max_values_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  reduce_loop<Maximum>(data, strides, size0, size1);
}
void min_values_loop(char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  reduce_loop<Minimum>(data, strides, size0, size1);
}

}  // namespace densecore::DENSECORE_ISA
