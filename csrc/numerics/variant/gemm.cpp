#include "gemm.h"

#include <algorithm>

#include "../parallel.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

using DENSECORE_ISA::Strided;

// What an element of the result is: alpha * x . y + beta * *d; d is read if beta != 0 only.
struct Sum {
  int64_t k;
  float alpha;
  Strided x;
  Strided y;
  float beta;
  const float* d;
};

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

float chain_from(const SumOrder& order, float start, const Sum& sum) {
  for (int64_t i = 0; i < sum.k; ++i) start = multiply_add(order.fused, sum.x[i], sum.alpha * sum.y[i], start);
  return start;
}

float element(Addend place, const SumOrder& order, const Sum& sum) {
  const float addend = sum.beta == 0 ? 0.0f : sum.beta * *sum.d;
  if (place == Addend::kChain) return chain_from(order, addend, sum);
  const bool first = place == Addend::kFirst;
  const int64_t block = block_of(order, sum.k);
  bool empty = !first || sum.beta == 0;
  float total = empty ? 0.0f : addend;
  for (int64_t begin = 0; begin < sum.k; begin += block) {
    const float part = block_sum(order, first ? sum.alpha : 1.0f, sum.x, sum.y, begin, std::min(begin + block, sum.k));
    total = empty ? part : total + part;
    empty = false;
  }
  if (first) return total;
  return sum.beta == 0 ? sum.alpha * total : multiply_add(order.fused, sum.alpha, total, addend);
}

SumOrder under(const Profile& profile, SumOrder order) {
  order.fused = order.fused && profile.fma;
  order.fused_tail = order.fused_tail && profile.fma;
  return order;
}

// Row i of op(A).
Strided row_of(const GemvCall& call, int64_t i) {
  return call.trans == 'N' ? Strided{call.a + i, call.lda} : Strided{call.a + i * call.lda, 1};
}

// y := alpha * op(A) * x + beta * y by at::native::gemv (ATen/native/BlasKernel.cpp): column by column, or row by row.
void gemv_loops(const Profile& profile, const GemvCall& call) {
  const bool fused = profile.fuses_scalar();
  for (int64_t i = 0; i < call.outputs(); ++i) {
    float& y = call.y[i * call.incy];
    const Strided row = row_of(call, i);
    float sum = call.trans != 'N' || call.beta == 0 ? 0.0f : call.beta * y;
    for (int64_t k = 0; k < call.depth(); ++k) {
      const float x = call.x[k * call.incx];
      sum = multiply_add(fused, call.trans == 'N' ? call.alpha * x : x, row[k], sum);
    }
    if (call.trans == 'N') y = sum;
    else y = call.beta == 0 ? call.alpha * sum : multiply_add(fused, call.beta, y, call.alpha * sum);
  }
}

}  // namespace

void gemm(const Profile& profile, const GemmCall& call) {
  const BlasRule* rule = profile.blas->find(BlasRoutine::kGemm, call.transa, call.m, call.n, call.k);
  const int64_t a_row = call.transa == 'N' ? 1 : call.lda, a_k = call.transa == 'N' ? call.lda : 1;
  const int64_t b_column = call.transb == 'N' ? call.ldb : 1, b_k = call.transb == 'N' ? 1 : call.ldb;
  parallel_run(call.n, [&](int64_t j) {
    const SumOrder order = under(profile, j == call.n - 1 && call.n % 2 ? rule->odd_last_column : rule->order);
    for (int64_t i = 0; i < call.m; ++i) {
      call.c[i + j * call.ldc] = element(rule->addend, order, {call.k, call.alpha, {call.a + i * a_row, a_k}, {call.b + j * b_column, b_k},
                                                               call.beta, call.d + i * call.d_row + j * call.d_column});
    }
  });
}

void gemv(const Profile& profile, const GemvCall& call) {
  if (!call.suits_blas()) return gemv_loops(profile, call);
  const int64_t rows = call.outputs(), k = call.depth();
  const BlasRule* rule = profile.blas->find(BlasRoutine::kGemv, call.trans, rows, 1, k);
  const SumOrder order = under(profile, rule->order);
  parallel_run(rows, [&](int64_t i) {
    const Strided row = row_of(call, i);
    float* y = call.y + i * call.incy;
    *y = element(rule->addend, order, {k, call.alpha, row, {call.x, call.incx}, call.beta, y});
  });
}

float sdot(const Profile& profile, int64_t n, const float* x, int64_t incx, const float* y, int64_t incy) {
  const SumOrder order = under(profile, profile.blas->find(BlasRoutine::kDot, '*', 1, 1, n)->order);
  return element(Addend::kLast, order, {n, 1, {x, incx}, {y, incy}, 0, nullptr});
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
