// Each output is one chain over k, and the compiler of the reference fuses its steps. Where both matrices are contiguous along k it
// multiplies four elements in a vector and adds the rounded products in order, so that only the last k % 4 steps are fused. Of
// `r * beta + alpha * sum` it fuses the first product.
#include "bmm.h"

#include "../lanes.h"
#include "../parallel.h"

namespace densecore::DENSECORE_ISA {
namespace {

float element(const BmmCall& call, const float* left, const float* right) {
  const int64_t rounded = call.left.column == 1 && call.right.row == 1 ? call.k / 4 * 4 : 0;
  float sum = 0;
  for (int64_t k = 0; k < rounded; ++k) sum += left[k] * right[k];
  for (int64_t k = rounded; k < call.k; ++k) sum = fma(left[k * call.left.column], right[k * call.right.row], sum);
  return sum;
}

void product(const BmmCall& call, int64_t b) {
  const float* left = call.left.data + b * call.left.batch;
  const float* right = call.right.data + b * call.right.batch;
  float* result = call.result.data + b * call.result.batch;
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      float& r = result[i * call.result.row + j * call.result.column];
      const float scaled = call.alpha * element(call, left + i * call.left.row, right + j * call.right.column);
      r = call.beta == 0 ? scaled : fma(r, call.beta, scaled);
    }
  }
}

}  // namespace

void bmm_loops(const Profile& profile, const BmmCall& call) {
  const int64_t work = call.m * call.n * call.k;
  const int64_t grain = work > 0 && work < kGrainSize ? kGrainSize / work : 1;
  parallel_for(profile, 0, call.count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) product(call, b);
  });
}

}  // namespace densecore::DENSECORE_ISA
