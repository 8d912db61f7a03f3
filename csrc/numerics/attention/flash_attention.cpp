// Flash attention, forward. See flash_attention.h for the reference.
//
// A row of scores is handled in groups of 4 (Vectorized<float> on NEON): exp_u20 looks at its whole group, the row's sum has one
// partial per lane. A host register holds the groups of kWidth / 4 rows, which never meet.
#include "flash_attention.h"

#include <algorithm>
#include <limits>

#include "../lanes.h"
#include "../math/exp.h"
#include "../math/libm.h"
#include "../parallel.h"
#include "../scratch.h"
#include "attention_gemm.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int kGroup = 4;                   // lanes of Vectorized<float>
constexpr int kRows = kWidth / kGroup;      // rows that share a host register

// The scores of one block of queries against one block of keys, and what the rows carry from block to block.
struct Block {
  float* scores;  // [rows, columns]
  float* max;     // [rows], -inf at first
  float* sum;     // [rows], 0 at first
  float* out;     // [rows, head_size], unnormalised
  int64_t rows;
  int64_t columns;
  int64_t vector_end;  // columns / 4 * 4: the vector loop's part; the rest is scalar code with libm's expf
};

// scores <- scores * scale + mask. clang fuses the scalar tail, not the vector body (fmul.4s, fadd.4s; fmadd).
void scale_and_mask(float* row, const float* mask, bool mask_broadcast, float scale, int64_t columns) {
  const int64_t vector_end = columns / kGroup * kGroup;
  for (int64_t i = 0; i < columns; ++i) {
    const float addend = mask[mask_broadcast ? 0 : i];
    row[i] = i < vector_end ? row[i] * scale + addend : fma(row[i], scale, addend);
  }
}

// The largest value, NaN if one of the first `nan_end` is NaN. FMAX's order of zeros does not matter to what uses it.
float row_max(const float* row, int64_t columns, int64_t nan_end) {
  using V = F32<kWidth>;
  V best = splat<V>(kMinusInfinity);
  mask_type<V> nan = {};
  int64_t i = 0;
  for (; i + kWidth <= nan_end; i += kWidth) {
    const V x = load<V>(row + i);
    best = select(x > best, x, best);
    nan |= is_nan(x);
  }
  if (any(nan)) return std::numeric_limits<float>::quiet_NaN();
  float result = kMinusInfinity;
  for (int lane = 0; lane < kWidth; ++lane) result = std::max(result, best[lane]);
  for (; i < columns; ++i) {
    if (i < nan_end && row[i] != row[i]) return row[i];
    result = std::max(result, row[i]);
  }
  return result;
}

void scale_row(float* row, float factor, int64_t n) {
  using V = F32<kWidth>;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(row + i, load<V>(row + i) * splat<V>(factor));
  for (; i < n; ++i) row[i] *= factor;
}

// Columns [i, i + 4) of R rows as one vector.
template <int R>
DENSECORE_INLINE F32<kGroup * R> load_group(const float* p, int64_t row_stride) {
  if constexpr (R == 1) {
    return load<F32<kGroup>>(p);
  } else {
    return detail::join<F32<kGroup * R>>(load_group<R / 2>(p, row_stride), load_group<R / 2>(p + R / 2 * row_stride, row_stride));
  }
}
template <int R>
DENSECORE_INLINE void store_group(float* p, int64_t row_stride, F32<kGroup * R> v) {
  if constexpr (R == 1) {
    store(p, v);
  } else {
    store_group<R / 2>(p, row_stride, detail::low(v));
    store_group<R / 2>(p + R / 2 * row_stride, row_stride, detail::high(v));
  }
}

// scores <- exp(scores - max) for R rows; sum[r] <- the row's sum: lane partials, (0 + 2) + (1 + 3), then the scalar tail in order.
// Groups from `live_end` on hold -inf only (or NaN never): their exp is 0.
template <int R>
void exp_and_sum(float* scores, const float* max, float* sum, const Block& block, int64_t live_end) {
  using V = F32<kGroup * R>;
  V row_max_of_lane;
  for (int lane = 0; lane < kGroup * R; ++lane) row_max_of_lane[lane] = max[lane / kGroup];
  V partial = {};
  const int64_t vector_end = std::min(live_end, block.vector_end);
  for (int64_t i = 0; i < vector_end; i += kGroup) {
    const V e = exp_u20(load_group<R>(scores + i, block.columns) - row_max_of_lane);
    partial += e;
    store_group<R>(scores + i, block.columns, e);
  }
  for (int r = 0; r < R; ++r) {
    float* row = scores + r * block.columns;
    const int base = kGroup * r;
    float total = (partial[base] + partial[base + 2]) + (partial[base + 1] + partial[base + 3]);
    std::fill(row + vector_end, row + block.vector_end, 0.0f);
    for (int64_t i = block.vector_end; i < block.columns; ++i) {
      row[i] = libm::expf(row[i] - max[r]);
      total += row[i];
    }
    sum[r] = total;
  }
}

// One row's running maximum and sum, and the rescaling of what its output holds so far (std::exp is libm's, the sum is fused).
void update_row(const Block& block, int64_t row, float new_max, float block_sum, bool first, int64_t head_size) {
  const float factor = libm::expf(block.max[row] - new_max);
  block.sum[row] = fma(factor, block.sum[row], block_sum);
  block.max[row] = new_max;
  if (!first) scale_row(block.out + row * head_size, factor, head_size);
}

// The online softmax of a block. Rows whose maximum stays -inf get zero weights and keep their state.
// `live_end(row)`: from that column on the row's scores are -inf by causality, and known not to be needed.
template <class LiveEnd>
void softmax_block(const Block& block, bool masked, float scale, bool first, int64_t head_size, const LiveEnd& live_end) {
  float maxima[kRows], sums[kRows];
  for (int64_t row = 0; row < block.rows; row += kRows) {
    const int count = static_cast<int>(std::min<int64_t>(kRows, block.rows - row));
    bool all_live = count == kRows;
    for (int r = 0; r < count; ++r) {
      float* scores = block.scores + (row + r) * block.columns;
      const int64_t end = live_end(row + r);
      if (!masked) scale_row(scores, scale, end);
      // vec::reduce_all sees every element's NaN; the fused max of the unmasked path ignores NaN in the scalar tail (std::max)
      const float found = row_max(scores, end, masked ? end : std::min(end, block.vector_end));
      maxima[r] = block.max[row + r] > found ? block.max[row + r] : found;
      all_live &= maxima[r] != kMinusInfinity;
    }
    if (all_live) {
      exp_and_sum<kRows>(block.scores + row * block.columns, maxima, sums, block, live_end(row + kRows - 1));
    }
    for (int r = 0; r < count; ++r) {
      float* scores = block.scores + (row + r) * block.columns;
      if (maxima[r] == kMinusInfinity) {
        std::fill(scores, scores + block.columns, 0.0f);
        continue;
      }
      if (!all_live) exp_and_sum<1>(scores, maxima + r, sums + r, block, live_end(row + r));
      update_row(block, row + r, maxima[r], sums[r], first, head_size);
    }
  }
}

// One head's share of the work that does not depend on the block of queries.
struct Head {
  int64_t batch;
  int64_t head;
  TransposedRows keys;
};

// Scores of the block against the keys from `key` on, masked: hidden columns are -inf, then scaled and added to the mask if there is
// one. `hidden(row)` is the first column that causality hides.
template <class Hidden>
void score_block(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors, const Head& at,
                 const Block& block, int64_t query, int64_t key, const Hidden& hidden) {
  row_products(profile, at.keys, tensors.key.at(at.batch, at.head, 0), tensors.key.row_stride, key, block.columns,
               hidden(block.rows - 1), tensors.query.at(at.batch, at.head, query), tensors.query.row_stride, block.rows, 1.0f,
               block.scores);
  const AttentionMask& mask = shape.mask;
  for (int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.columns;
    std::fill(scores + hidden(row), scores + block.columns, kMinusInfinity);
    if (mask.data != nullptr) {
      const float* addend = mask.data + at.batch * mask.batch_stride + at.head * mask.head_stride + (query + row) * mask.query_stride +
                            (mask.key_stride == 0 ? 0 : key);
      scale_and_mask(scores, addend, mask.key_stride == 0, shape.scale, block.columns);
    }
  }
}

void normalize(const AttentionForward& tensors, const Head& at, const Block& block, int64_t query, int64_t head_size) {
  for (int64_t row = 0; row < block.rows; ++row) {
    const float max = block.max[row] == kMinusInfinity ? 0.0f : block.max[row];
    const float sum = block.sum[row] == 0 ? 1.0f : block.sum[row];
    const float factor = 1 / sum;
    float* out = tensors.out.at(at.batch, at.head, query + row);
    for (int64_t i = 0; i < head_size; ++i) out[i] = block.out[row * head_size + i] * factor;
    *tensors.logsumexp.at(at.batch, at.head, query + row) = max + libm::logf(sum);
  }
}

// One block of queries of one head against all its keys.
void attend(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors, const Head& at, Block block,
            int64_t query) {
  std::fill(block.max, block.max + block.rows, kMinusInfinity);
  std::fill(block.sum, block.sum + block.rows, 0.0f);
  const bool masked = shape.mask.data != nullptr;
  const int64_t keys = shape.causal ? std::min(query + block.rows, shape.keys) : shape.keys;
  for (int64_t key = 0; key < keys; key += kKeyBlock) {
    block.columns = std::min(kKeyBlock, shape.keys - key);
    block.vector_end = block.columns / kGroup * kGroup;
    const bool diagonal = shape.causal && keys - key <= kKeyBlock;
    const auto hidden = [&](int64_t row) {
      return diagonal ? std::clamp<int64_t>(query + row - key + 1, 0, block.columns) : block.columns;
    };
    score_block(profile, shape, tensors, at, block, query, key, hidden);
    // -inf stays -inf under a positive scale, and exp(-inf - max) is 0: such groups need no work
    const bool skip = diagonal && !masked && shape.scale > 0;
    softmax_block(block, masked, shape.scale, key == 0, shape.head_size, [&](int64_t row) {
      return skip ? std::min((hidden(row) + kGroup - 1) / kGroup * kGroup, block.columns) : block.columns;
    });
    weighted_rows(profile, tensors.value.at(at.batch, at.head, key), tensors.value.row_stride, shape.head_size, block.scores,
                  block.columns, block.rows, block.columns, 1.0f, key != 0, block.out, shape.head_size);
  }
  normalize(tensors, at, block, query, shape.head_size);
}

// The blocks of queries [begin, end) of one head.
void attend_head(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors, int64_t batch, int64_t head,
                 int64_t begin, int64_t end) {
  const int64_t d = shape.head_size, size = std::min(query_block(shape.queries), shape.queries);
  const int64_t widest = std::min(kKeyBlock, shape.keys);
  float* const memory = thread_scratch(Scratch::kAttention, size * (widest + 2 + d) + TransposedRows::floats(shape.keys, d));
  Block block{};
  block.scores = memory;
  block.max = block.scores + size * widest;
  block.sum = block.max + size;
  block.out = block.sum + size;
  const Head at{batch, head, {block.out + size * d, d}};
  at.keys.pack(tensors.key.at(batch, head, 0), tensors.key.row_stride, shape.keys);
  for (int64_t i = begin; i < end; ++i) {
    block.rows = std::min(size, shape.queries - i * size);
    attend(profile, shape, tensors, at, block, i * size);
  }
}

}  // namespace

void flash_attention(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors) {
  // Few heads are divided further, so that many host threads find work; each part packs the head's keys for itself.
  constexpr int64_t kEnoughTasks = 32;
  const int64_t blocks = divup(shape.queries, query_block(shape.queries)), heads = shape.batch * shape.heads;
  const int64_t parts = std::min(blocks, divup(kEnoughTasks, heads));
  parallel_run(heads * parts, [&](int64_t task) {
    const int64_t part = task % parts, head = task / parts % shape.heads, batch = task / parts / shape.heads;
    attend_head(profile, shape, tensors, batch, head, blocks * part / parts, blocks * (part + 1) / parts);
  });
}

}  // namespace densecore::DENSECORE_ISA
