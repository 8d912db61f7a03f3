// ATen/native/cpu/layer_norm_kernel.cpp and moments_utils.h, one row at a time; norm/moments_utils.h explains the order.
#include "layer_norm.h"

#include <cmath>

#include "../parallel.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

constexpr int64_t kChunk = 16;    // kChunkSize: vectors per Welford chunk
constexpr int kMaxDepth = 60;  // more levels than a row of 2^62 elements needs

// Of one lane, or of the row.
struct Moments {
  int64_t count = 0;
  float mean = 0;
  float m2 = 0;
};

float weight_of(int64_t added, int64_t total) { return total == 0 ? 0.0f : static_cast<float>(added) / static_cast<float>(total); }

// AddMomentsVec, in a lane.
void merge_lane(bool fma, const Moments& part, Moments& sum) {
  const int64_t total = sum.count + part.count;
  const float delta = part.mean - sum.mean, step = weight_of(part.count, total) * delta;
  sum.m2 = multiply_add(fma, delta * static_cast<float>(sum.count), step, sum.m2 + part.m2);
  sum.mean += step;
  sum.count = total;
}

// AddMoments.
void merge_row(bool fma, const Moments& part, Moments& sum) {
  const int64_t total = sum.count + part.count;
  const float weight = weight_of(part.count, total), delta = part.mean - sum.mean;
  sum.m2 += multiply_add(fma, delta * delta * weight, static_cast<float>(sum.count), part.m2);
  sum.mean = multiply_add(fma, weight, delta, sum.mean);
  sum.count = total;
}

// Every `lanes`-th element from x on: `count` of them in chunks, which are merged as in a cascade sum.
Moments lane_moments(const Profile& profile, const float* x, int64_t count) {
  const int64_t chunks = divup(count, kChunk);
  int depth = 1;  // ceil(log2(chunks)), at least 1
  while ((int64_t{1} << depth) < chunks) ++depth;
  Moments level[kMaxDepth];
  for (int64_t i = 0; i < chunks; ++i) {
    Moments chunk;
    for (int64_t j = i * kChunk; j < count && j < (i + 1) * kChunk; ++j) {
      const float value = x[j * profile.lanes], delta = value - chunk.mean;
      chunk.mean = multiply_add(profile.fma, 1.0f / static_cast<float>(++chunk.count), delta, chunk.mean);
      chunk.m2 = multiply_add(profile.fma, delta, value - chunk.mean, chunk.m2);
    }
    merge_lane(profile.fma, chunk, level[0]);
    int64_t position = i + 1;
    for (int d = 1; d < depth && position % 2 == 0; ++d, position /= 2) {
      merge_lane(profile.fma, level[d - 1], level[d]);
      level[d - 1] = {};
    }
  }
  for (int d = 1; d < depth; ++d) merge_lane(profile.fma, level[d], level[0]);
  return level[0];
}

// RowwiseMoments: the elements that fill no vector, then the lanes.
Moments row_moments(const Profile& profile, const float* x, int64_t n) {
  const int64_t vectors = n / profile.lanes;
  Moments row;
  for (int64_t i = vectors * profile.lanes; i < n; ++i) {
    const float delta = x[i] - row.mean;
    row.mean += delta / static_cast<float>(++row.count);
    row.m2 = multiply_add(profile.contract == Contraction::kClang, delta, x[i] - row.mean, row.m2);  // GCC does not
  }
  for (int lane = 0; lane < profile.lanes; ++lane) merge_row(profile.fma, lane_moments(profile, x + lane, vectors), row);
  return row;
}

}  // namespace

void layer_norm(const Profile& profile, const float* x, const float* gamma, const float* beta, int64_t m, int64_t n, float eps, float* y,
                float* mean, float* rstd) {
  // Vector code where both are given, else a scalar loop, which GCC turns into vector code too. There the product with a missing gamma is
  // left out before fusing, so that rstd's product is the fused one.
  const bool by_gcc = profile.fuses_vector();
  const bool fused = by_gcc || (profile.fuses_scalar() && !(gamma && beta));
  parallel_run(m, [&](int64_t i) {
    const float* row = x + i * n;
    const Moments moments = row_moments(profile, row, n);
    mean[i] = moments.mean;
    rstd[i] = 1.0f / std::sqrt(moments.m2 / static_cast<float>(n) + eps);
    for (int64_t j = 0; j < n; ++j) {
      const float centered = row[j] - mean[i];
      if (by_gcc && !gamma && beta) y[i * n + j] = multiply_add(true, centered, rstd[i], beta[j]);
      else y[i * n + j] = multiply_add(fused, centered * rstd[i], gamma ? gamma[j] : 1.0f, beta ? beta[j] : 0.0f);
    }
  });
}

}  // namespace densecore::variant
