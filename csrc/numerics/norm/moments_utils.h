// Mean and variance of rows as ATen/native/cpu/moments_utils.h orders them: Welford's update over chunks of 16 vectors of 4 lanes,
// the chunks merged as in a cascade sum, the 4 lanes and the row's tail merged last. Which multiply-adds are fused is read from
// RowwiseMomentsImpl<float, 4> of the reference wheel.
#pragma once

#include "../reduce/row_groups.h"

namespace densecore::DENSECORE_ISA {

inline constexpr int64_t kMomentsChunk = 16;  // kChunkSize
inline constexpr int kMomentsDepth = 60;      // more levels than a row of 2^62 elements needs

struct Moments {
  RowVector mean[kRowVectors];
  RowVector m2[kRowVectors];
};

DENSECORE_INLINE float merge_weight(int64_t added, int64_t total) {
  return total == 0 ? 0.0f : static_cast<float>(added) / static_cast<float>(total);
}

// AddMomentsVec: into `sum`, of n elements so far, `part` of `added` elements.
DENSECORE_INLINE void merge_moments(int64_t added, const Moments& part, int64_t& n, Moments& sum) {
  const int64_t total = n + added;
  const float weight = merge_weight(added, total);
  const float before = static_cast<float>(n);
  each_row_vector([&](int u) {
    const RowVector delta = part.mean[u] - sum.mean[u];
    const RowVector step = weight * delta;
    sum.mean[u] = sum.mean[u] + step;
    sum.m2[u] = fma(delta * before, step, sum.m2[u] + part.m2[u]);
  });
  n = total;
}

// UpdateMomentsVec without its merge: the whole groups of columns [begin, end).
DENSECORE_INLINE Moments chunk_moments(const Rows<>& x, int64_t begin, int64_t end) {
  Moments chunk = {};
  const auto value = [&](int r, auto where) { return where.load(x[r]); };
  const auto step = [&](int u, RowVector v, int64_t group) {
    const RowVector delta = v - chunk.mean[u];
    chunk.mean[u] = fma(splat<RowVector>(1.0f / static_cast<float>(group + 1)), delta, chunk.mean[u]);
    chunk.m2[u] = fma(delta, v - chunk.mean[u], chunk.m2[u]);
  };
  walk_groups(begin, end, value, step, [](int, RowVector, int64_t) {});
  return chunk;
}

// The cascade over a row's whole groups; lanes are not merged yet.
DENSECORE_INLINE Moments group_moments(const Rows<>& x, int64_t groups) {
  const int64_t chunks = (groups + kMomentsChunk - 1) / kMomentsChunk;
  int depth = 1;  // ceil(log2(chunks)), at least 1
  while ((int64_t{1} << depth) < chunks) ++depth;
  Moments level[kMomentsDepth];
  int64_t count[kMomentsDepth];
  for (int d = 0; d < depth; ++d) {
    level[d] = {};
    count[d] = 0;
  }
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t begin = i * kMomentsChunk, end = i + 1 < chunks ? begin + kMomentsChunk : groups;
    merge_moments(end - begin, chunk_moments(x, begin * kGroup, end * kGroup), count[0], level[0]);
    int64_t position = i + 1;
    for (int d = 1; d < depth && position % 2 == 0; ++d, position /= 2) {
      merge_moments(count[d - 1], level[d - 1], count[d], level[d]);
      level[d - 1] = {};
      count[d - 1] = 0;
    }
  }
  for (int d = 1; d < depth; ++d) merge_moments(count[d], level[d], count[0], level[0]);
  return level[0];
}

using BatchVector = F32<kRowBatch>;  // one lane for each row of a batch

// RowwiseMoments: mean and variance (divided by n) of kRowBatch rows of n elements.
DENSECORE_INLINE void rowwise_moments(const Rows<>& x, int64_t n, BatchVector& mean, BatchVector& variance) {
  const int64_t groups = n / kGroup;
  const Moments lanes = group_moments(x, groups);
  mean = BatchVector{};
  BatchVector m2 = {};
  int64_t count = 0;
  for (int64_t j = groups * kGroup; j < n; ++j) {
    BatchVector value;
    for (int r = 0; r < kRowBatch; ++r) value[r] = x[r][j];
    const BatchVector delta = value - mean;
    mean = mean + delta / static_cast<float>(++count);
    m2 = fma(delta, value - mean, m2);
  }
  float lane_mean[kRowBatch * kGroup], lane_m2[kRowBatch * kGroup];
  std::memcpy(lane_mean, lanes.mean, sizeof(lane_mean));
  std::memcpy(lane_m2, lanes.m2, sizeof(lane_m2));
  for (int64_t k = 0; k < kGroup; ++k) {
    BatchVector part_mean, part_m2;
    for (int64_t r = 0; r < kRowBatch; ++r) {
      part_mean[r] = lane_mean[r * kGroup + k];
      part_m2[r] = lane_m2[r * kGroup + k];
    }
    const BatchVector weight = splat<BatchVector>(merge_weight(groups, count + groups));
    const BatchVector delta = part_mean - mean;
    mean = fma(weight, delta, mean);
    m2 = m2 + fma(delta * delta * weight, splat<BatchVector>(static_cast<float>(count)), part_m2);
    count += groups;
  }
  variance = m2 / static_cast<float>(n);
}

}  // namespace densecore::DENSECORE_ISA
