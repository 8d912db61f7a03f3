// Softmax over the last dimension. The reference uses its vector exp (SLEEF, 1.0 ulp) for every element, the row's last ones too;
// sums are reduce_all's 4-lane sums. A maximum does not depend on the order of its elements: where it could (NaN, zeros of both
// signs), the result does not depend on which is taken.
#include <algorithm>
#include <type_traits>

#include "../math/exp.h"
#include "../math/log.h"
#include "../parallel.h"
#include "../reduce/row_groups.h"
#include "SoftMaxKernel.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr float kInfinity = __builtin_inff();
const auto kAdd = [](RowVector a, RowVector b) { return a + b; };

// f(first row, number of rows) for batches of `batch` rows, on the host's threads.
template <class F>
void each_row_batch(int64_t rows, int64_t n, int64_t batch, F f) {
  const int64_t batches = divup(rows, batch);
  const int64_t per_task = std::max<int64_t>(1, kGrainSize / (4 * n * batch));
  parallel_run(divup(batches, per_task), [&](int64_t task) {
    const int64_t end = std::min(batches, (task + 1) * per_task);
    for (int64_t b = task * per_task; b < end; ++b) f(b * batch, std::min(batch, rows - b * batch));
  });
}

DENSECORE_INLINE RowVector larger(RowVector a, RowVector b) { return select(a > b, a, b); }

DENSECORE_INLINE float row_maximum(const float* x, int64_t n) {
  RowVector best[4];
  for (RowVector& b : best) b = splat<RowVector>(-kInfinity);
  int64_t j = 0;
  for (; j + 4 * kWidth <= n; j += 4 * kWidth) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) best[k] = larger(load<RowVector>(x + j + k * kWidth), best[k]);
  }
  for (; j + kWidth <= n; j += kWidth) best[0] = larger(load<RowVector>(x + j), best[0]);
  const RowVector all = larger(larger(best[0], best[1]), larger(best[2], best[3]));
  float maximum = all[0];
  for (int k = 1; k < kWidth; ++k) maximum = all[k] > maximum ? all[k] : maximum;
  for (; j < n; ++j) maximum = x[j] > maximum ? x[j] : maximum;
  return maximum;
}

// The maximum alone does not tell: it passes over NaN.
bool is_masked(const float* row, int64_t n) {
  return std::all_of(row, row + n, [](float value) { return value == -kInfinity; });
}

template <bool kSafe>
DENSECORE_INLINE void softmax_batch(const float* x, int64_t rows, int64_t n, float* y) {
  float maximum[kRowBatch], sum[kRowBatch];
  bool masked[kRowBatch] = {};
  for (int64_t r = 0; r < rows; ++r) {
    maximum[r] = row_maximum(x + r * n, n);
    masked[r] = kSafe && maximum[r] == -kInfinity && is_masked(x + r * n, n);
  }
  const auto exponential = [&](int r, auto where) {
    if (r >= rows) return RowVector{};
    const RowVector e = exp_u10(where.load(x + r * n) - maximum[r]);
    where.store(y + r * n, e);
    return e;
  };
  reduce_rows(n, exponential, kAdd, sum);
  for (int64_t r = 0; r < rows; ++r) {
    float* row = y + r * n;
    if (masked[r]) {
      std::fill(row, row + n, 0.0f);
      continue;
    }
    const float factor = 1.0f / sum[r];
    each_column_vector(n, [&](auto where) { where.store(row, where.load(row) * factor); });
  }
}

DENSECORE_INLINE void log_softmax_batch(const float* x, int64_t rows, int64_t n, float* y) {
  float maximum[kRowBatch], sum[kRowBatch];
  for (int64_t r = 0; r < rows; ++r) maximum[r] = row_maximum(x + r * n, n);
  const auto exponential = [&](int r, auto where) {
    return r < rows ? exp_u10(where.load(x + r * n) - maximum[r]) : RowVector{};
  };
  reduce_rows(n, exponential, kAdd, sum);
  for (int r = 0; r < kRowBatch; r += kWidth) store(sum + r, log_u10(load<RowVector>(sum + r)));
  for (int64_t r = 0; r < rows; ++r) {
    each_column_vector(n, [&](auto where) { where.store(y + r * n, where.load(x + r * n) - maximum[r] - sum[r]); });
  }
}

}  // namespace

void softmax_rows(const float* x, int64_t rows, int64_t n, float* y) {
  each_row_batch(rows, n, kRowBatch, [&](int64_t i, int64_t count) { softmax_batch<false>(x + i * n, count, n, y + i * n); });
}
void safe_softmax_rows(const float* x, int64_t rows, int64_t n, float* y) {
  each_row_batch(rows, n, kRowBatch, [&](int64_t i, int64_t count) { softmax_batch<true>(x + i * n, count, n, y + i * n); });
}
void log_softmax_rows(const float* x, int64_t rows, int64_t n, float* y) {
  each_row_batch(rows, n, kRowBatch, [&](int64_t i, int64_t count) { log_softmax_batch(x + i * n, count, n, y + i * n); });
}

namespace {

// The gradients read their rows twice: for the sum, then for the result. Fewer rows at once keep them in the nearest cache until then.
constexpr int64_t kShortRow = 128;
// Batches of longer rows asked for ahead: the processor foresees one stream, not a batch of rows that end soon.
constexpr int64_t kAhead = 4;
constexpr int kSecondLevel = 2;  // locality, as __builtin_prefetch counts it

template <class Sum, class Result>
DENSECORE_INLINE void rows_backward(const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input, Sum summand,
                                    Result result) {
  const auto run = [&]<int U>(std::integral_constant<int, U>) {
    each_row_batch(rows, n, row_batch<U>, [&](int64_t i, int64_t count) {
      float sum[row_batch<U>];
      const Rows<U> g(grad + i * n, n, count), y(output + i * n, n, count);
      reduce_rows<U>(n, [&](int r, auto where) { return summand(where, g[r], y[r]); }, kAdd, sum);
      for (int r = 0; r < count; ++r) {
        float* out = grad_input + (i + r) * n;
        each_column_vector(n, [&](auto where) {
          if constexpr (U == 1) {
            __builtin_prefetch(g[r] + kAhead * row_batch<U> * n + where.begin, 0, kSecondLevel);
            __builtin_prefetch(y[r] + kAhead * row_batch<U> * n + where.begin, 0, kSecondLevel);
          }
          where.store(out, result(where, g[r], y[r], sum[r]));
        });
      }
    });
  };
  if (n <= kShortRow) run(std::integral_constant<int, 2>{});
  else run(std::integral_constant<int, 1>{});
}

}  // namespace

void softmax_rows_backward(const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input) {
  rows_backward(
      grad, output, rows, n, grad_input, [](auto where, const float* g, const float* y) { return where.load(g) * where.load(y); },
      [](auto where, const float* g, const float* y, float sum) { return (where.load(g) - sum) * where.load(y); });
}

void log_softmax_rows_backward(const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input) {
  rows_backward(
      grad, output, rows, n, grad_input, [](auto where, const float* g, const float*) { return where.load(g); },
      [](auto where, const float* g, const float* y, float sum) { return where.load(g) - exp_u10(where.load(y)) * sum; });
}

}  // namespace densecore::DENSECORE_ISA
