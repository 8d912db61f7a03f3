#include "gemm.h"

#include <algorithm>

#include "../parallel.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

using DENSECORE_ISA::Strided;

// The sum of factor * x * y over [begin, end).
float block_sum(const SumOrder& order, float factor, Strided x, Strided y, int64_t begin, int64_t end) {
  const int64_t lanes = order.lanes, groups = (end - begin) / lanes;
  float sums[kMaxLanes][kMaxAccumulators] = {};
  for (int64_t i = begin; i < begin + groups * lanes; ++i) {
    float& sum = sums[(i - begin) % lanes][(i - begin) / lanes % order.accumulators];
    sum = multiply_add(order.fused, factor * x[i], y[i], sum);
  }
  // As in ordered_dot: of single lanes a chain that took no element is not added.
  const int64_t used = lanes == 1 ? std::clamp<int64_t>(groups, 1, order.accumulators) : order.accumulators;
  float lane[kMaxLanes] = {};
  for (int64_t l = 0; l < lanes; ++l) lane[l] = DENSECORE_ISA::sum_in_pairs(sums[l], static_cast<int>(used));
  float sum = join_lanes(order.lane_join, lane, order.lanes);
  for (int64_t i = begin + groups * lanes; i < end; ++i) sum = multiply_add(order.fused_tail, factor * x[i], y[i], sum);
  return sum;
}

int64_t block_of(const SumOrder& order, int64_t k) {
  if (order.block == 0 || k <= order.block) return k;
  return order.halves && k < 2 * order.block ? k / 2 : order.block;
}

// alpha * x . y + beta * d. Accelerate adds the blocks' sums, multiplies with alpha and adds beta * d; MKL multiplies x with alpha and adds
// the blocks' sums to beta * d (BlasRules::adds_blocks_to_start).
float element(const BlasRules& rules, const SumOrder& order, const GemmCall& call, Strided x, Strided y, const float* d) {
  const int64_t block = block_of(order, call.k);
  const float addend = call.beta == 0 ? 0.0f : call.beta * *d;
  const float factor = rules.adds_blocks_to_start ? call.alpha : 1.0f;
  bool empty = !rules.adds_blocks_to_start || call.beta == 0;
  float total = empty ? 0.0f : addend;
  for (int64_t begin = 0; begin < call.k; begin += block) {
    const float sum = block_sum(order, factor, x, y, begin, std::min(begin + block, call.k));
    total = empty ? sum : total + sum;
    empty = false;
  }
  if (rules.adds_blocks_to_start) return total;
  return call.beta == 0 ? call.alpha * total : multiply_add(order.fused, call.alpha, total, addend);
}

}  // namespace

void gemm(const Profile& profile, const GemmCall& call) {
  const BlasRule* rule = profile.blas->find(BlasRoutine::kGemm, call.transa, call.m, call.n, call.k);
  const int64_t a_row = call.transa == 'N' ? 1 : call.lda, a_k = call.transa == 'N' ? call.lda : 1;
  const int64_t b_column = call.transb == 'N' ? call.ldb : 1, b_k = call.transb == 'N' ? 1 : call.ldb;
  parallel_run(call.n, [&](int64_t j) {
    SumOrder order = j == call.n - 1 && call.n % 2 ? rule->odd_last_column : rule->order;
    order.fused = order.fused && profile.fma;
    order.fused_tail = order.fused_tail && profile.fma;
    for (int64_t i = 0; i < call.m; ++i) {
      call.c[i + j * call.ldc] = element(*profile.blas, order, call, {call.a + i * a_row, a_k}, {call.b + j * b_column, b_k},
                                         call.d + i * call.d_row + j * call.d_column);
    }
  });
}

void bmm_loops(const Profile& profile, const BmmCall& call) {
  parallel_run(call.count, [&](int64_t b) {
    for (int64_t i = 0; i < call.m; ++i) {
      for (int64_t j = 0; j < call.n; ++j) {
        const float* left = call.left.data + b * call.left.batch + i * call.left.row;
        const float* right = call.right.data + b * call.right.batch + j * call.right.column;
        float& r = call.result.data[b * call.result.batch + i * call.result.row + j * call.result.column];
        float sum = 0;
        for (int64_t k = 0; k < call.k; ++k) {
          sum = multiply_add(profile.fuses_scalar(), left[k * call.left.column], right[k * call.right.row], sum);
        }
        r = call.beta == 0 ? call.alpha * sum : multiply_add(profile.fuses_scalar(), r, call.beta, call.alpha * sum);
      }
    }
  });
}

}  // namespace densecore::variant
