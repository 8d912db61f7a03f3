// sgemv, sdot and the products below the switch to the matrix unit: dot products in the order that the rule table gives.
#include "gemv.h"

#include <utility>

#include "../parallel.h"
#include "../scratch.h"
#include "ordered_dot.h"
#include "small.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int64_t kRowsPerTask = 64;
constexpr int64_t kSerialElements = 1 << 20;  // of a matrix up to which waking other threads costs more than it gains

float dot(SumOrder order, int64_t n, Strided x, Strided y) {
  if (!is_four_by_four(order) || x.step != 1 || y.step != 1) return ordered_dot(order, n, x, y);
  float out;
  dot_four_by_four<1>(order.fused_tail, n, x.data, 0, y.data, &out);
  return out;
}

// alpha * sum + beta * y; y is not read if beta is 0.
float finish(float alpha, float sum, float beta, const float* y) { return beta == 0 ? alpha * sum : fma(alpha, sum, beta * *y); }

// Outputs side by side: chain c takes k = c, c + A, ... of every output at once.
template <int A>
void sums_across(int64_t n, const float* a, int64_t lda, Strided x, int64_t rows, float* out) {
  F32<kWidth> sum[A] = {};
  int64_t k = 0;
  const auto step = [&](int c) {
    const float* column = a + (k + c) * lda;
    const F32<kWidth> value = rows == kWidth ? load<F32<kWidth>>(column) : load_partial<F32<kWidth>>(column, rows);
    sum[c] = fma(value, splat<F32<kWidth>>(x[k + c]), sum[c]);
  };
  for (; k + A <= n; k += A) {
    for (int c = 0; c < A; ++c) step(c);
  }
  for (int c = 0; c < static_cast<int>(n - k); ++c) step(c);
  for (int width = n < A ? 1 : A; width > 1; width /= 2) {
    for (int c = 0; c < width / 2; ++c) sum[c] = sum[2 * c] + sum[2 * c + 1];
  }
  store_partial(out, sum[0], rows);
}

const float* gather(int64_t n, Strided x) {
  float* out = thread_scratch(Scratch::kGemm, n);
  for (int64_t k = 0; k < n; ++k) out[k] = x[k];
  return out;
}

// out[0, rows): rows first .. first + rows of op(A) times x.
void row_sums(SumOrder order, const GemvCall& call, int64_t first, int64_t rows, float* out) {
  const bool along_k = call.trans != 'N';
  const int64_t n = along_k ? call.m : call.n;
  const float* a = call.a + first * (along_k ? call.lda : 1);
  const Strided x{call.x, call.incx};
  int64_t i = 0;
  if (along_k && is_four_by_four(order) && (call.incx == 1 || rows >= 4)) {
    const float* gathered = call.incx == 1 ? call.x : gather(n, x);
    for (; i + 4 <= rows; i += 4) dot_four_by_four<4>(order.fused_tail, n, a + i * call.lda, call.lda, gathered, out + i);
    for (; i < rows; ++i) dot_four_by_four<1>(order.fused_tail, n, a + i * call.lda, call.lda, gathered, out + i);
  } else if (!along_k && order.lanes == 1 && order.accumulators <= 2) {
    for (; i < rows; i += kWidth) {
      const int64_t count = rows - i < kWidth ? rows - i : kWidth;
      if (order.accumulators == 1) sums_across<1>(n, a + i, call.lda, x, count, out + i);
      else sums_across<2>(n, a + i, call.lda, x, count, out + i);
    }
    return;
  }
  for (; i < rows; ++i) out[i] = dot(order, n, along_k ? Strided{a + i * call.lda, 1} : Strided{a + i, call.lda}, x);
}

void sgemv(const Profile& profile, const GemvCall& call) {
  const int64_t rows = call.outputs();
  const SumOrder order = profile.blas->find(BlasRoutine::kGemv, call.trans, rows, 1, call.depth())->order;
  const auto run = [&](int64_t task) {
    const int64_t first = task * kRowsPerTask, count = rows - first < kRowsPerTask ? rows - first : kRowsPerTask;
    float sums[kRowsPerTask];
    row_sums(order, call, first, count, sums);
    for (int64_t i = 0; i < count; ++i) {
      float* y = call.y + (first + i) * call.incy;
      *y = finish(call.alpha, sums[i], call.beta, y);
    }
  };
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  if (call.m * call.n > kSerialElements) return parallel_run(tasks, run);
  for (int64_t task = 0; task < tasks; ++task) run(task);
}

// y += (alpha * x[j]) * column j, column by column; the compiler of the reference fuses each step.
void add_columns(const GemvCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    float& y = call.y[i * call.incy];
    if (call.beta == 0) y = 0;
    else if (call.beta != 1) y *= call.beta;
  }
  for (int64_t j = 0; j < call.n; ++j) {
    const float factor = call.alpha * call.x[j * call.incx];
    const float* column = call.a + j * call.lda;
    for (int64_t i = 0; i < call.m; ++i) call.y[i * call.incy] = fma(factor, column[i], call.y[i * call.incy]);
  }
}

void add_rows(const GemvCall& call) {
  for (int64_t i = 0; i < call.n; ++i) {
    float& y = call.y[i * call.incy];
    const float sum = ordered_dot(kChain, call.m, {call.x, call.incx}, {call.a + i * call.lda, 1});
    y = call.beta == 0 ? call.alpha * sum : fma(call.beta, y, call.alpha * sum);
  }
}

}  // namespace

void gemv(const Profile& profile, const GemvCall& call) {
  if (call.suits_blas()) sgemv(profile, call);
  else if (call.trans == 'N') add_columns(call);
  else add_rows(call);
}

float sdot(const Profile& profile, int64_t n, const float* x, int64_t incx, const float* y, int64_t incy) {
  return dot(profile.blas->find(BlasRoutine::kDot, '*', 1, 1, n)->order, n, {x, incx}, {y, incy});
}

// A column of the product is op(A) times a column of op(B).
void small_gemm(const BlasRule& rule, const GemmCall& call) {
  const int64_t b_column = call.transb == 'N' ? call.ldb : 1, b_k = call.transb == 'N' ? 1 : call.ldb;
  GemvCall column{call.transa, call.m, call.k, 1, call.a, call.lda, nullptr, b_k, 0, nullptr, 1};
  if (call.transa != 'N') std::swap(column.m, column.n);
  for (int64_t j = 0; j < call.n; ++j) {
    const SumOrder order = j == call.n - 1 && call.n % 2 ? rule.odd_last_column : rule.order;
    column.x = call.b + j * b_column;
    for (int64_t first = 0; first < call.m; first += kRowsPerTask) {
      const int64_t count = call.m - first < kRowsPerTask ? call.m - first : kRowsPerTask;
      float sums[kRowsPerTask];
      row_sums(order, column, first, count, sums);
      for (int64_t i = first; i < first + count; ++i) {
        call.c[i + j * call.ldc] = finish(call.alpha, sums[i - first], call.beta, call.d + i * call.d_row + j * call.d_column);
      }
    }
  }
}

}  // namespace densecore::DENSECORE_ISA
