// Variances: WelfordOps of ATen/native/SharedReduceOps.h in double, the last product of an expression fused with its sum.
#include "ReduceOpsKernel.h"
#include "reduced_elements.h"

namespace densecore::DENSECORE_ISA {
namespace {

using Lanes = F64<8>;
constexpr int kLaneVectors = kReduceBlock / 8;

Variance project(VarianceOp op, const Welford& w) {
  const double divisor = w.n > op.correction ? w.n - op.correction : 0;
  const double variance = w.m2 / divisor;
  return {static_cast<float>(op.take_sqrt ? sqrt(variance) : variance), static_cast<float>(w.mean)};
}

Welford join(const Welford& a, const Welford& b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double delta = b.mean - a.mean;
  const double n = a.n + b.n;
  const double b_share = b.n / n;
  return {fma(delta, b_share, a.mean), fma(delta * delta * a.n, b_share, a.m2 + b.m2), n};
}

}  // namespace

void welford_block(VarianceOp op, const char* const* in, int outputs, ReducedDims dims, Variance* results) {
  const BlockReader block(in, outputs);
  Lanes mean[kLaneVectors] = {}, m2[kLaneVectors] = {};
  double n = 0;
  each_reduced_element(dims, 0, reduced_count(dims), [&](int64_t offset) {
    const auto x = block.read(offset);
    F32<8> half[kLaneVectors];
    std::memcpy(half, &x, sizeof(half));
    n += 1;
#pragma GCC unroll 2
    for (int v = 0; v < kLaneVectors; ++v) {
      const Lanes value = __builtin_convertvector(half[v], Lanes);
      const Lanes delta = value - mean[v];
      mean[v] = mean[v] + delta / n;
      m2[v] = fma(delta, value - mean[v], m2[v]);
    }
  });
  for (int k = 0; k < outputs; ++k) results[k] = project(op, {mean[k / 8][k % 8], m2[k / 8][k % 8], n});
}

Welford welford_range(const char* in, ReducedDims dims, int64_t begin, int64_t end) {
  Welford w;
  each_reduced_element(dims, begin, end, [&](int64_t offset) {
    const double value = *reinterpret_cast<const float*>(in + offset);
    const double delta = value - w.mean;
    w.n += 1;
    w.mean = w.mean + delta / w.n;
    w.m2 = fma(delta, value - w.mean, w.m2);
  });
  return w;
}

Variance welford_join(VarianceOp op, const Welford* ranges, int count) {
  Welford total;
  for (int i = 0; i < count; ++i) total = join(total, ranges[i]);
  return project(op, total);
}

double squared_deviations(const char* in, const int64_t* strides, int64_t size0, int64_t size1, double mean) {
  double sum = 0;
  for (int64_t j = 0; j < size1; ++j) {
    for (int64_t i = 0; i < size0; ++i) {
      const double delta = *reinterpret_cast<const float*>(in + j * strides[1] + i * strides[0]) - mean;
      sum = fma(delta, delta, sum);
    }
  }
  return sum;
}

}  // namespace densecore::DENSECORE_ISA
