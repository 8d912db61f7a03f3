// Flash attention, forward. See flash_attention.h for the reference.
//
// A row of scores is handled in groups of 4 (Vectorized<float> on NEON): exp_u20 looks at its whole group, the row's sum has one
// partial per lane. A host register holds the groups of kWidth / 4 rows, which never meet.
#include "flash_attention.h"

#include <algorithm>
#include <limits>
#include <utility>

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

void scale_row(float* row, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) row[i] *= factor;
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

// Lanes exchanged with their neighbour, and with the lane two further, inside each group.
template <class V, int... I>
DENSECORE_INLINE V swap_neighbours(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I ^ 1)...);
}
template <class V, int... I>
DENSECORE_INLINE V swap_pairs(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I ^ 2)...);
}

// R rows of scores, 4 lanes each.
template <int R>
struct RowGroup {
  using V = F32<kGroup * R>;
  static constexpr auto kLanes = std::make_integer_sequence<int, kGroup * R>{};

  const Block& block;
  int64_t row;
  int64_t live_end;  // from there on the scores are -inf and their weights 0 (the scalar tail apart)
  float* scores = block.scores + row * block.columns;

  static V spread(const float* values) {
    V v;
    for (int lane = 0; lane < kGroup * R; ++lane) v[lane] = values[lane / kGroup];
    return v;
  }
  int64_t vector_end() const { return std::min(live_end, block.vector_end); }

  // Each row's maximum in its lanes. NaN where the vector part has one; std::max, which the unmasked path uses in the scalar tail,
  // passes over NaN, vec::reduce_all does not. The order of zeros does not matter to what uses the maximum.
  V maximum(bool nan_in_tail) const {
    V best = splat<V>(kMinusInfinity);
    mask_type<V> nan = {};
    for (int64_t i = 0; i < vector_end(); i += kGroup) {
      const V x = load_group<R>(scores + i, block.columns);
      best = select(x > best, x, best);
      nan |= is_nan(x);
    }
    V other = swap_pairs(best, kLanes);
    best = select(other > best, other, best);
    other = swap_neighbours(best, kLanes);
    best = select(other > best, other, best);
    for (int64_t i = block.vector_end; i < block.columns; ++i) {
      V x;
      for (int lane = 0; lane < kGroup * R; ++lane) x[lane] = scores[lane / kGroup * block.columns + i];
      best = select(x > best, x, best);
      if (nan_in_tail) nan |= is_nan(x);
    }
    return any(nan) ? select(spread_in_groups(nan), splat<V>(std::numeric_limits<float>::quiet_NaN()), best) : best;
  }

  // scores <- exp(scores - max). Each row's sum in its lanes: lane partials, (0 + 2) + (1 + 3), then the scalar tail in order.
  V exponentials(V max) const {
    V sum = {};
    for (int64_t i = 0; i < vector_end(); i += kGroup) {
      const V e = exp_u20(load_group<R>(scores + i, block.columns) - max);
      sum += e;
      store_group<R>(scores + i, block.columns, e);
    }
    sum += swap_pairs(sum, kLanes);
    sum += swap_neighbours(sum, kLanes);
    for (int r = 0; r < R; ++r) std::fill(at(r, vector_end()), at(r, block.vector_end), 0.0f);
    for (int64_t i = block.vector_end; i < block.columns; ++i) {
      V e;
      for (int r = 0; r < R; ++r) {
        *at(r, i) = libm::expf(*at(r, i) - max[kGroup * r]);
        for (int lane = 0; lane < kGroup; ++lane) e[kGroup * r + lane] = *at(r, i);
      }
      sum += e;
    }
    return sum;
  }

  float* at(int64_t r, int64_t column) const { return scores + r * block.columns + column; }
};

// The running maximum and sum of a row, and the rescaling of what its output holds so far (std::exp is libm's, the sum is fused).
void update_row(const Block& block, int64_t row, float max, float sum, bool first, int64_t head_size) {
  // Before the first block the maximum is -inf and the sum 0, so the factor is 0 (or NaN beside a NaN sum).
  if (!first) {
    const float factor = libm::expf(block.max[row] - max);
    sum = fma(factor, block.sum[row], sum);
    scale_row(block.out + row * head_size, factor, head_size);
  }
  block.sum[row] = sum;
  block.max[row] = max;
}

// The online softmax of R rows. A row whose maximum stays -inf gets zero weights and keeps its state; where R rows hold such a row,
// nothing is done and false is returned.
template <int R>
bool softmax_rows(const RowGroup<R>& rows, bool masked, bool first, int64_t head_size) {
  using V = typename RowGroup<R>::V;
  const Block& block = rows.block;
  const V before = RowGroup<R>::spread(block.max + rows.row), found = rows.maximum(masked);
  const V max = select(before > found, before, found);
  if (any(max == kMinusInfinity)) {
    if (R == 1) std::fill(rows.scores, rows.scores + block.columns, 0.0f);
    return R == 1;
  }
  const V sum = rows.exponentials(max);
  for (int r = 0; r < R; ++r) update_row(block, rows.row + r, max[kGroup * r], sum[kGroup * r], first, head_size);
  return true;
}

// The online softmax of a block. `live_end(row)`: from that column on the row's scores are -inf and their exponentials 0.
template <class LiveEnd>
void softmax_block(const Block& block, bool masked, bool first, int64_t head_size, const LiveEnd& live_end) {
  for (int64_t row = 0; row < block.rows; row += kRows) {
    const int64_t end = std::min(row + kRows, block.rows);
    if (end == row + kRows && softmax_rows(RowGroup<kRows>{block, row, live_end(end - 1)}, masked, first, head_size)) continue;
    for (int64_t r = row; r < end; ++r) softmax_rows(RowGroup<1>{block, r, live_end(r)}, masked, first, head_size);
  }
}

// One head's share of the work that does not depend on the block of queries.
struct Head {
  int64_t batch;
  int64_t head;
  int64_t key_head;
  TransposedRows keys;
};

// Scores of the block against the keys from `key` on: scaled, -inf where causality hides them (before the scaling), the mask added.
// `hidden(row)` is the first hidden column.
template <class Hidden>
void score_block(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors, const Head& at,
                 const Block& block, int64_t query, int64_t key, const Hidden& hidden) {
  const AttentionMask& mask = shape.mask;
  // The product's own factor is the same rounding as a scaling afterwards; BLAS may treat 0 and negative ones in another way.
  const bool scaled = mask.data == nullptr && shape.scale > 0;
  row_products(profile, at.keys, tensors.key.at(at.batch, at.key_head, 0), tensors.key.row_stride, key, block.columns,
               hidden(block.rows - 1), tensors.query.at(at.batch, at.head, query), tensors.query.row_stride, block.rows,
               scaled ? shape.scale : 1.0f, block.scores);
  for (int64_t row = 0; row < block.rows; ++row) {
    float* scores = block.scores + row * block.columns;
    std::fill(scores + hidden(row), scores + block.columns, kMinusInfinity);
    if (mask.data != nullptr) {
      const float* addend = mask.data + at.batch * mask.batch_stride + at.head * mask.head_stride + (query + row) * mask.query_stride +
                            (mask.key_stride == 0 ? 0 : key);
      scale_and_mask(scores, addend, mask.key_stride == 0, shape.scale, block.columns);
    } else if (!scaled) {
      scale_row(scores, shape.scale, block.columns);
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
    softmax_block(block, masked, key == 0, shape.head_size, [&](int64_t row) {
      return skip ? std::min((hidden(row) + kGroup - 1) / kGroup * kGroup, block.columns) : block.columns;
    });
    weighted_rows(profile, tensors.value.at(at.batch, at.key_head, key), tensors.value.row_stride, shape.head_size, block.scores,
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
  const Head at{batch, head, head / shape.group, {block.out + size * d, d}};
  at.keys.pack(tensors.key.at(batch, at.key_head, 0), tensors.key.row_stride, shape.keys);
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
