// Flash attention, backward. See flash_attention.h for the reference.
//
// The weights are restored from the scores and the logsumexp with SLEEF's exp (not exp_u20, as in the forward pass): every lane stands
// alone, tails are padded vectors. Only dsum, a dot product of rows, has lane partials.
#include <algorithm>

#include "../lanes.h"
#include "../math/exp.h"
#include "../parallel.h"
#include "../scratch.h"
#include "attention_gemm.h"
#include "flash_attention.h"

namespace densecore::DENSECORE_ISA {
namespace {

using Wide = F32<kWidth>;
constexpr int kGroup = 4;  // lanes of Vectorized<float>

// vec::map2_reduce_all of x * y: products rounded, one partial per lane, the last partial group added to the first lanes;
// (0 + 2) + (1 + 3). Fewer than 4 elements are added in order.
float row_dot(const float* x, const float* y, int64_t n) {
  using V = F32<kGroup>;
  if (n < kGroup) {
    float total = x[0] * y[0];
    for (int64_t i = 1; i < n; ++i) total += x[i] * y[i];
    return total;
  }
  V partial = load<V>(x) * load<V>(y);
  int64_t i = kGroup;
  for (; i + kGroup <= n; i += kGroup) partial += load<V>(x + i) * load<V>(y + i);
  for (int lane = 0; i < n; ++i, ++lane) partial[lane] += x[i] * y[i];
  return (partial[0] + partial[2]) + (partial[1] + partial[3]);
}

// out <- f(a, b) over n elements; f acts lane by lane, so that the register width does not matter.
template <class F>
DENSECORE_INLINE void map_row(const float* a, const float* b, float* out, int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(out + i, f(load<Wide>(a + i), load<Wide>(b + i)));
  if (i < n) store_partial(out + i, f(load_partial<Wide>(a + i, n - i), load_partial<Wide>(b + i, n - i)), n - i);
}

// scores <- exp((scores + mask) - normalizer); hidden columns become 0.
void restore_weights(float* scores, const float* mask, bool mask_broadcast, float normalizer, int64_t visible, int64_t columns) {
  const Wide shift = splat<Wide>(normalizer);
  const auto weight = [&](Wide x, Wide addend) { return exp_u10((x + addend) - shift); };
  if (mask == nullptr) {
    map_row(scores, scores, scores, visible, [&](Wide x, Wide) { return exp_u10(x - shift); });
  } else if (mask_broadcast) {
    map_row(scores, scores, scores, visible, [&](Wide x, Wide) { return weight(x, splat<Wide>(*mask)); });
  } else {
    map_row(scores, mask, scores, visible, weight);
  }
  std::fill(scores + visible, scores + columns, 0.0f);
}

// What the blocks of queries of one head share; the heads of a group share all but the head.
struct Head {
  int64_t batch;
  int64_t head;
  int64_t key_head;
  TransposedRows keys;
  TransposedRows values;
  float* weights;       // [rows, columns]
  float* grad_weights;  // [rows, columns]
  float* dsum;          // [rows]
};

// The contribution of the queries [query, query + rows) to the three gradients of the head.
void backward_block(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors, const Head& at,
                    int64_t query, int64_t rows) {
  const int64_t d = shape.head_size;
  const auto rows_of = [&](const auto& tensor, int64_t row) { return tensor.at(at.batch, at.head, row); };
  const auto key_rows = [&](const auto& tensor, int64_t row) { return tensor.at(at.batch, at.key_head, row); };
  const float* const q = rows_of(tensors.query, query);
  const float* const grad_out = rows_of(tensors.grad_out, query);
  for (int64_t row = 0; row < rows; ++row) {
    at.dsum[row] = row_dot(rows_of(tensors.grad_out, query + row), rows_of(tensors.out, query + row), d);
  }
  const AttentionMask& mask = shape.mask;
  const int64_t keys = shape.causal ? std::min(query + rows, shape.keys) : shape.keys;
  for (int64_t key = 0; key < keys; key += kKeyBlock) {
    const int64_t columns = std::min(kKeyBlock, shape.keys - key);
    const bool diagonal = shape.causal && keys - key <= kKeyBlock;
    const auto visible = [&](int64_t row) {
      return diagonal ? std::clamp<int64_t>(query + row - key + 1, 0, columns) : columns;
    };
    row_products(profile, at.keys, key_rows(tensors.key, 0), tensors.key.row_stride, key, columns, visible(rows - 1), q,
                 tensors.query.row_stride, rows, shape.scale, at.weights);
    for (int64_t row = 0; row < rows; ++row) {
      const float* addend = nullptr;
      if (mask.data != nullptr) {
        addend = mask.data + at.batch * mask.batch_stride + at.head * mask.head_stride + (query + row) * mask.query_stride +
                 (mask.key_stride == 0 ? 0 : key);
      }
      restore_weights(at.weights + row * columns, addend, mask.key_stride == 0, *rows_of(tensors.logsumexp, query + row), visible(row),
                      columns);
    }
    transposed_weighted_rows(profile, grad_out, tensors.grad_out.row_stride, d, at.weights, columns, columns, rows, 1.0f,
                             key_rows(tensors.grad_value, key), tensors.grad_value.row_stride);
    row_products(profile, at.values, key_rows(tensors.value, 0), tensors.value.row_stride, key, columns, columns, grad_out,
                 tensors.grad_out.row_stride, rows, 1.0f, at.grad_weights);
    for (int64_t row = 0; row < rows; ++row) {
      const Wide dsum = splat<Wide>(at.dsum[row]);
      float* grad = at.grad_weights + row * columns;
      map_row(at.weights + row * columns, grad, grad, columns, [&](Wide weight, Wide g) { return weight * (g - dsum); });
    }
    weighted_rows(profile, key_rows(tensors.key, key), tensors.key.row_stride, d, at.grad_weights, columns, rows, columns, shape.scale,
                  true, rows_of(tensors.grad_query, query), tensors.grad_query.row_stride);
    transposed_weighted_rows(profile, q, tensors.query.row_stride, d, at.grad_weights, columns, columns, rows, shape.scale,
                             key_rows(tensors.grad_key, key), tensors.grad_key.row_stride);
  }
}

// The heads of queries that share one head of keys, in order: their gradients meet there.
void backward_group(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors, int64_t batch,
                    int64_t key_head) {
  const int64_t d = shape.head_size, size = std::min(query_block(shape.queries), shape.queries);
  const int64_t scores = size * std::min(kKeyBlock, shape.keys), packed = TransposedRows::floats(shape.keys, d);
  float* const memory = thread_scratch(Scratch::kAttention, 2 * packed + 2 * scores + size);
  Head at{batch, key_head * shape.group, key_head, {memory, d}, {memory + packed, d}, memory + 2 * packed,
          memory + 2 * packed + scores, memory + 2 * packed + 2 * scores};
  at.keys.pack(tensors.key.at(batch, key_head, 0), tensors.key.row_stride, shape.keys);
  at.values.pack(tensors.value.at(batch, key_head, 0), tensors.value.row_stride, shape.keys);
  for (int64_t i = 0; i < shape.group; ++i, ++at.head) {
    for (int64_t query = 0; query < shape.queries; query += size) {
      backward_block(profile, shape, tensors, at, query, std::min(size, shape.queries - query));
    }
  }
}

}  // namespace

void flash_attention_backward(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors) {
  const int64_t key_heads = shape.heads / shape.group;
  parallel_run(shape.batch * key_heads, [&](int64_t task) {
    backward_group(profile, shape, tensors, task / key_heads, task % key_heads);
  });
}

}  // namespace densecore::DENSECORE_ISA
