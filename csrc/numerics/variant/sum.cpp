// The four cases of ATen/native/cpu/SumKernel.cpp, which reduce/SumKernel.cpp explains, for any number of lanes.
#include "sum.h"

#include "../reduce/cascade_sum.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

using DENSECORE_ISA::kSumLevels;

constexpr int kPartials = 4;  // ilp_factor
constexpr int kMaxWidth = kPartials * kMaxLanes;
constexpr int64_t kContiguous = sizeof(float);

// A matrix of summands: element (i, j), i being reduced.
struct Summands {
  const char* data;
  int64_t i_stride;
  int64_t j_stride;
  bool skip_nan;

  float at(int64_t i, int64_t j) const {
    const float value = *reinterpret_cast<const float*>(data + i * i_stride + j * j_stride);
    return skip_nan && value != value ? 0.0f : value;
  }
};

struct Outputs {
  char* data;
  int64_t stride;
  void add(int64_t j, float sum) const { *reinterpret_cast<float*>(data + j * stride) += sum; }
};

// multi_row_sum: `width` running sums side by side, each over element(i, w).
template <class Element>
void cascade(int64_t size, int width, const Element& element, float* sums) {
  const int power = DENSECORE_ISA::sum_level_power(size);
  const int64_t step = int64_t{1} << power;
  float level[kSumLevels][kMaxWidth] = {};
  const auto take = [&](int64_t i) {
    for (int w = 0; w < width; ++w) level[0][w] += element(i, w);
  };
  const auto carry = [&](int to) {
    for (int w = 0; w < width; ++w) {
      level[to][w] += level[to - 1][w];
      level[to - 1][w] = 0;
    }
  };
  int64_t i = 0;
  while (i + step <= size) {
    for (const int64_t end = i + step; i < end; ++i) take(i);
    carry(1);
    for (int j = 2; j < kSumLevels && (i & ((step - 1) << ((j - 1) * power))) == 0; ++j) carry(j);
  }
  for (; i < size; ++i) take(i);
  for (int w = 0; w < width; ++w) {
    sums[w] = level[0][w];
    for (int j = 1; j < kSumLevels; ++j) sums[w] += level[j][w];
  }
}

// row_sum: 4 interleaved cascades of `lanes` sums each, added in order; the first took the elements left over.
template <class Element>
void row_sum(int64_t size, int lanes, const Element& element, float* sums) {
  float partial[kMaxWidth];
  const int64_t steps = size / kPartials;
  cascade(steps, kPartials * lanes, [&](int64_t i, int w) { return element(i * kPartials + w / lanes, w % lanes); }, partial);
  for (int lane = 0; lane < lanes; ++lane) {
    sums[lane] = partial[lane];
    for (int64_t i = steps * kPartials; i < size; ++i) sums[lane] += element(i, lane);
    for (int k = 1; k < kPartials; ++k) sums[lane] += partial[k * lanes + lane];
  }
}

float one_row_sum(const Summands& in, int64_t size, int64_t j) {
  float sum;
  row_sum(size, 1, [&](int64_t i, int) { return in.at(i, j); }, &sum);
  return sum;
}

// vectorized_inner_sum: the elements that fill no vector come first, then the lanes in order.
float contiguous_row_sum(const Summands& in, int64_t size, int lanes, int64_t j) {
  const int64_t vectors = size / lanes;
  float lane_sums[kMaxLanes];
  row_sum(vectors, lanes, [&](int64_t i, int lane) { return in.at(i * lanes + lane, j); }, lane_sums);
  float sum = 0;
  for (int64_t i = vectors * lanes; i < size; ++i) sum += in.at(i, j);
  for (int lane = 0; lane < lanes; ++lane) sum += lane_sums[lane];
  return sum;
}

// vectorized_outer_sum and scalar_outer_sum: whole blocks of columns are plain cascades, the columns left over row_sums.
void outer_sum(const Summands& in, int64_t rows, int64_t columns, int block, const Outputs& out) {
  int64_t j = 0;
  for (; j + block <= columns; j += block) {
    float sums[kMaxWidth];
    cascade(rows, block, [&](int64_t i, int w) { return in.at(i, j + w); }, sums);
    for (int w = 0; w < block; ++w) out.add(j + w, sums[w]);
  }
  for (; j < columns; ++j) out.add(j, one_row_sum(in, rows, j));
}

void add_elements(const Summands& in, const Summands& out, int64_t size0, int64_t size1) {
  for (int64_t j = 0; j < size1; ++j) {
    for (int64_t i = 0; i < size0; ++i) {
      *reinterpret_cast<float*>(const_cast<char*>(out.data) + i * out.i_stride + j * out.j_stride) = out.at(i, j) + in.at(i, j);
    }
  }
}

}  // namespace

void sum_loop(const Profile& profile, bool skip_nan, char* const* data, const int64_t* strides, int64_t size0, int64_t size1) {
  if (strides[0] != 0 && strides[2] != 0) {  // nothing is reduced in this loop
    return add_elements({data[1], strides[1], strides[3], skip_nan}, {data[0], strides[0], strides[2], skip_nan}, size0, size1);
  }
  const bool swapped = strides[0] != 0;  // the reduced dimension goes first
  const Summands in{data[1], strides[swapped ? 3 : 1], strides[swapped ? 1 : 3], skip_nan};
  const Outputs out{data[0], strides[swapped ? 0 : 2]};
  const int64_t rows = swapped ? size1 : size0, columns = swapped ? size0 : size1;
  if (in.i_stride == kContiguous && rows >= profile.lanes) {
    for (int64_t j = 0; j < columns; ++j) out.add(j, contiguous_row_sum(in, rows, profile.lanes, j));
  } else if (in.j_stride == kContiguous && columns >= profile.lanes) {
    outer_sum(in, rows, columns, kPartials * profile.lanes, out);
  } else if (in.i_stride < in.j_stride) {
    for (int64_t j = 0; j < columns; ++j) out.add(j, one_row_sum(in, rows, j));
  } else {
    outer_sum(in, rows, columns, kPartials, out);
  }
}

}  // namespace densecore::variant
