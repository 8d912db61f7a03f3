// Layer normalization. Order and fusion follow the reference wheel's code: the vector body (gamma and beta both given) rounds every
// operation, the scalar loop (one of them missing) fuses the last product with the sum.
#include "layer_norm_kernel.h"

#include <algorithm>
#include <vector>

#include "../parallel.h"
#include "moments_utils.h"

namespace densecore::DENSECORE_ISA {
namespace {

// Rows of one task: about 32 Ki elements, and whole batches.
int64_t rows_per_task(int64_t n) { return divup(std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, n)), kRowBatch) * kRowBatch; }

struct Affine {
  const float* gamma;
  const float* beta;
};

DENSECORE_INLINE void normalize_row(const float* x, Affine affine, int64_t n, float mean, float rstd, float* y) {
  const auto normalized = [&](auto where) { return (where.load(x) - mean) * rstd; };
  if (affine.gamma && affine.beta) {
    each_column_vector(n, [&](auto w) { w.store(y, normalized(w) * w.load(affine.gamma) + w.load(affine.beta)); });
  } else if (affine.gamma) {
    each_column_vector(n, [&](auto w) { w.store(y, fma(normalized(w), w.load(affine.gamma), RowVector{})); });
  } else if (affine.beta) {
    each_column_vector(n, [&](auto w) { w.store(y, normalized(w) + w.load(affine.beta)); });
  } else {
    each_column_vector(n, [&](auto w) { w.store(y, normalized(w) + 0.0f); });
  }
}

}  // namespace

void layer_norm(const float* x, const float* gamma, const float* beta, int64_t m, int64_t n, float eps, float* y, float* mean,
                float* rstd) {
  const int64_t step = rows_per_task(n);
  parallel_run(divup(m, step), [&](int64_t task) {
    const int64_t end = std::min(m, (task + 1) * step);
    for (int64_t i = task * step; i < end; i += kRowBatch) {
      const int64_t rows = std::min<int64_t>(kRowBatch, end - i);
      BatchVector batch_mean, variance;
      rowwise_moments(Rows(x + i * n, n, rows), n, batch_mean, variance);
      const BatchVector batch_rstd = 1.0f / sqrt(variance + eps);
      for (int64_t r = 0; r < rows; ++r) {
        mean[i + r] = batch_mean[r];
        rstd[i + r] = batch_rstd[r];
        normalize_row(x + (i + r) * n, {gamma, beta}, n, mean[i + r], rstd[i + r], y + (i + r) * n);
      }
    }
  });
}

namespace {

struct RowStatistics {
  const float* mean;
  const float* rstd;
};

// Rows that the gradients of the parameters and of the input read in turn, so that the second finds them in the first-level cache.
constexpr int64_t kBackwardRows = 8;

// Adds rows [0, rows) to the running sums, in order for every column.
DENSECORE_INLINE void add_parameter_gradients(const float* dy, const float* x, RowStatistics s, int64_t rows, int64_t n,
                                              float* dgamma, float* dbeta) {
  float shift[kBackwardRows];
  for (int64_t r = 0; r < rows; ++r) shift[r] = -s.rstd[r] * s.mean[r];
  each_column_vector(n, [&](auto where) {
    RowVector gamma_sum = dgamma ? where.load(dgamma) : RowVector{};
    RowVector beta_sum = dbeta ? where.load(dbeta) : RowVector{};
    for (int64_t r = 0; r < rows; ++r) {
      const RowVector grad = where.load(dy + r * n);
      if (dgamma) gamma_sum = gamma_sum + grad * (s.rstd[r] * where.load(x + r * n) + shift[r]);
      beta_sum = beta_sum + grad;
    }
    if (dgamma) where.store(dgamma, gamma_sum);
    if (dbeta) where.store(dbeta, beta_sum);
  });
}

const auto kAdd = [](RowVector a, RowVector b) { return a + b; };

constexpr int kSumVectors = kRowVectors / 2;
constexpr int kSumRows = row_batch<kSumVectors>;

// Sums of dy * x * gamma and of dy * gamma over each of kSumRows rows: two rows of a batch for each, so that they go side by side.
struct GradientSums {
  float values[2 * kSumRows];
  float ds(int64_t r) const { return values[r]; }
  float db(int64_t r) const { return values[kSumRows + r]; }
};
DENSECORE_INLINE GradientSums gradient_sums(const Rows<kSumVectors>& dy, const Rows<kSumVectors>& x, const float* gamma, int64_t n) {
  GradientSums sums;
  const auto product = [&](int r, auto w) {
    const int row = r % kSumRows;
    const RowVector grad = w.load(dy[row]);
    return r < kSumRows ? grad * w.load(x[row]) : grad;
  };
  if (gamma == nullptr) reduce_rows(n, product, kAdd, sums.values);
  else reduce_rows(n, [&](int r, auto w) { return product(r, w) * w.load(gamma); }, kAdd, sums.values);
  return sums;
}

// Of at most kSumRows rows.
DENSECORE_INLINE void input_gradients(const float* dy, const float* x, RowStatistics s, const float* gamma, int64_t rows, int64_t n,
                                      float* dx) {
  const GradientSums sums = gradient_sums({dy, n, rows}, {x, n, rows}, gamma, n);
  const float scale = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r) {
    const float a = s.rstd[r];
    const float b = fma(sums.db(r), s.mean[r], -sums.ds(r)) * a * a * a * scale;
    const float c = fma(-b, s.mean[r], -(sums.db(r) * a * scale));
    const float* grad = dy + r * n;
    const float* value = x + r * n;
    each_column_vector(n, [&](auto w) {
      RowVector g = a * w.load(grad);
      if (gamma) g = g * w.load(gamma);
      w.store(dx + r * n, g + b * w.load(value) + c);
    });
  }
}

// The per-thread sums added in thread order, threads without rows included (their sums are +0).
void sum_over_threads(const std::vector<float>& sums, int threads, int64_t n, float* out) {
  each_column_vector(n, [&](auto where) {
    RowVector total = {};
    for (int t = 0; t < threads; ++t) total = total + where.load(sums.data() + t * n);
    where.store(out, total);
  });
}

}  // namespace

void layer_norm_backward(const Profile& profile, const float* dy, const float* x, const float* mean, const float* rstd,
                         const float* gamma, int64_t m, int64_t n, float* dx, float* dgamma, float* dbeta) {
  const Chunks chunks = divide(profile, 0, m, 1);
  std::vector<float> gamma_sums(dgamma ? profile.threads * n : 0), beta_sums(dbeta ? profile.threads * n : 0);
  parallel_run(chunks.count, [&](int64_t chunk) {
    const int64_t end = chunks.chunk_end(chunk);
    for (int64_t i = chunks.chunk_begin(chunk); i < end; i += kBackwardRows) {
      const int64_t rows = std::min(kBackwardRows, end - i);
      if (dgamma || dbeta) {
        add_parameter_gradients(dy + i * n, x + i * n, {mean + i, rstd + i}, rows, n, dgamma ? gamma_sums.data() + chunk * n : nullptr,
                                dbeta ? beta_sums.data() + chunk * n : nullptr);
      }
      for (int64_t r = i; dx && r < i + rows; r += kSumRows) {
        const int64_t count = std::min<int64_t>(kSumRows, i + rows - r);
        input_gradients(dy + r * n, x + r * n, {mean + r, rstd + r}, gamma, count, n, dx + r * n);
      }
    }
  });
  if (dgamma) sum_over_threads(gamma_sums, profile.threads, n, dgamma);
  if (dbeta) sum_over_threads(beta_sums, profile.threads, n, dbeta);
}

}  // namespace densecore::DENSECORE_ISA
