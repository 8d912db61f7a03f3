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

// Adds rows [0, rows) to the running sums, in order for every column.
DENSECORE_INLINE void add_parameter_gradients(const float* dy, const float* x, RowStatistics s, int64_t rows, int64_t n,
                                              float* dgamma, float* dbeta) {
  float shift[kRowBatch];
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

// Sums of dy * x * gamma and of dy * gamma over each row of the batch.
DENSECORE_INLINE void gradient_sums(const Rows& dy, const Rows& x, const float* gamma, int64_t n, float* ds, float* db) {
  if (gamma == nullptr) {
    reduce_rows(n, [&](int r, auto w) { return w.load(dy[r]) * w.load(x[r]); }, kAdd, ds);
    return reduce_rows(n, [&](int r, auto w) { return w.load(dy[r]); }, kAdd, db);
  }
  reduce_rows(n, [&](int r, auto w) { return w.load(dy[r]) * w.load(x[r]) * w.load(gamma); }, kAdd, ds);
  reduce_rows(n, [&](int r, auto w) { return w.load(dy[r]) * w.load(gamma); }, kAdd, db);
}

DENSECORE_INLINE void input_gradients(const float* dy, const float* x, RowStatistics s, const float* gamma, int64_t rows, int64_t n,
                                      float* dx) {
  float ds[kRowBatch], db[kRowBatch];
  gradient_sums(Rows(dy, n, rows), Rows(x, n, rows), gamma, n, ds, db);
  const float scale = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r) {
    const float a = s.rstd[r];
    const float b = fma(db[r], s.mean[r], -ds[r]) * a * a * a * scale;
    const float c = fma(-b, s.mean[r], -(db[r] * a * scale));
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
    for (int64_t i = chunks.chunk_begin(chunk); i < end; i += kRowBatch) {
      const int64_t rows = std::min<int64_t>(kRowBatch, end - i);
      const RowStatistics statistics{mean + i, rstd + i};
      if (dgamma || dbeta) {
        add_parameter_gradients(dy + i * n, x + i * n, statistics, rows, n, dgamma ? gamma_sums.data() + chunk * n : nullptr,
                                dbeta ? beta_sums.data() + chunk * n : nullptr);
      }
      if (dx) input_gradients(dy + i * n, x + i * n, statistics, gamma, rows, n, dx + i * n);
    }
  });
  if (dgamma) sum_over_threads(gamma_sums, profile.threads, n, dgamma);
  if (dbeta) sum_over_threads(beta_sums, profile.threads, n, dbeta);
}

}  // namespace densecore::DENSECORE_ISA
