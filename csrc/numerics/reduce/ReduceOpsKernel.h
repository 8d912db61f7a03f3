// The reductions of ATen/native/cpu/ReduceOpsKernel.cpp other than sums: products and extremes, norms, variances.
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "SumKernel.h"

namespace densecore {

// ---- binary_kernel_reduce_vec: 2-d loops (see SumKernel.h); the output holds the identity or the result so far ----

DENSECORE_KERNEL(prod_loop, ReduceLoopFn);
// NaN if any element is NaN. Of zeros of both signs the result depends on the order, which is the reference's.
DENSECORE_KERNEL(max_values_loop, ReduceLoopFn);
DENSECORE_KERNEL(min_values_loop, ReduceLoopFn);

// ---- reduce_all_impl_vec (ReduceAllOpsKernel.cpp): the extreme of a whole tensor ----

// Of n > 0 contiguous elements: NaN if any is NaN; of zeros of both signs +0 is the maximum and -0 the minimum.
using ExtremeRangeFn = float(const float* x, int64_t n);
DENSECORE_KERNEL(max_range, ExtremeRangeFn);
DENSECORE_KERNEL(min_range, ExtremeRangeFn);
// Joins what the ranges gave; of equal zeros the first is taken.
using ExtremeJoinFn = float(const float* ranges, int count);
DENSECORE_KERNEL(max_join, ExtremeJoinFn);
DENSECORE_KERNEL(min_join, ExtremeJoinFn);

// ---- binary_kernel_reduce: the elements of an output one after the other ----

// The elements that one output reduces: a strided array, dimension 0 fastest, strides in bytes.
struct ReducedDims {
  int count;
  const int64_t* sizes;
  const int64_t* strides;
};
// Outputs that are reduced side by side.
inline constexpr int kReduceBlock = 16;

enum class Norm { kZero, kOne, kTwo, kMax, kMin, kPower };
struct NormOp {
  Norm kind;
  float power;  // of kPower
};

// The norms of `outputs` <= kReduceBlock arrays of the same layout that begin at in[0], in[1], ...
using NormBlockFn = void(NormOp op, const char* const* in, int outputs, ReducedDims dims, float* norms);
DENSECORE_KERNEL(norm_block, NormBlockFn);
// What elements [begin, end) of one array accumulate to, before the final root.
using NormRangeFn = float(NormOp op, const char* in, ReducedDims dims, int64_t begin, int64_t end);
DENSECORE_KERNEL(norm_range, NormRangeFn);
// The norm from the accumulations of ranges, in order.
using NormJoinFn = float(NormOp op, const float* ranges, int count);
DENSECORE_KERNEL(norm_join, NormJoinFn);

// The 2-norms of `count` rows of n contiguous elements: the case that the reference vectorizes.
using NormTwoRowsFn = void(const float* const* rows, int64_t count, int64_t n, float* norms);
DENSECORE_KERNEL(norm_two_rows, NormTwoRowsFn);

// Welford's running mean and sum of squared deviations, in double.
struct Welford {
  double mean = 0;
  double m2 = 0;
  double n = 0;
};
struct Variance {
  float variance;
  float mean;
};
struct VarianceOp {
  double correction;  // subtracted from the number of elements
  bool take_sqrt;
};
using WelfordBlockFn = void(VarianceOp op, const char* const* in, int outputs, ReducedDims dims, Variance* results);
DENSECORE_KERNEL(welford_block, WelfordBlockFn);
using WelfordRangeFn = Welford(const char* in, ReducedDims dims, int64_t begin, int64_t end);
DENSECORE_KERNEL(welford_range, WelfordRangeFn);
using WelfordJoinFn = Variance(VarianceOp op, const Welford* ranges, int count);
DENSECORE_KERNEL(welford_join, WelfordJoinFn);

// std_var_all_cpu (ATen/native/ReduceOps.cpp): the sum of squared deviations from a mean over one 2-d loop.
using SquaredDeviationsFn = double(const char* in, const int64_t* strides, int64_t size0, int64_t size1, double mean);
DENSECORE_KERNEL(squared_deviations, SquaredDeviationsFn);

}  // namespace densecore
