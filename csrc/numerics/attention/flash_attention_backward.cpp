// Flash attention, backward. See flash_attention.h for the reference.
//
// The weights are restored from the scores and the logsumexp with SLEEF's exp (not exp_u20, as in the forward pass): every lane stands
// alone, tails are padded vectors. Only dsum, a dot product of rows, has lane partials.
#include <algorithm>

#include "../blas/gemm.h"
#include "../lanes.h"
#include "../math/exp.h"
#include "../parallel.h"
#include "../scratch.h"
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

// The contribution of one block of queries to the three gradients of one head.
void backward_block(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors, int64_t batch,
                    int64_t head, int64_t query, int64_t rows) {
  const int64_t d = shape.head_size;
  const int64_t widest = std::min(kKeyBlock, shape.keys);
  float* const weights = thread_scratch(Scratch::kAttention, rows * (2 * widest + 1));
  float* const grad_weights = weights + rows * widest;
  float* const dsum = grad_weights + rows * widest;

  const float* const q = tensors.query.at(batch, head, query);
  const float* const grad_out = tensors.grad_out.at(batch, head, query);
  for (int64_t row = 0; row < rows; ++row) {
    dsum[row] = row_dot(grad_out + row * tensors.grad_out.row_stride, tensors.out.at(batch, head, query + row), d);
  }
  const AttentionMask& mask = shape.mask;
  const int64_t keys = shape.causal ? std::min(query + rows, shape.keys) : shape.keys;
  for (int64_t key = 0; key < keys; key += kKeyBlock) {
    const int64_t columns = std::min(kKeyBlock, shape.keys - key);
    const float* const k = tensors.key.at(batch, head, key);
    const bool diagonal = shape.causal && keys - key <= kKeyBlock;
    sgemm_serial(profile, 'T', 'N', columns, rows, d, shape.scale, k, tensors.key.row_stride, q, tensors.query.row_stride, 0.0f, weights,
         columns);
    for (int64_t row = 0; row < rows; ++row) {
      const float* addend = nullptr;
      if (mask.data != nullptr) {
        addend = mask.data + batch * mask.batch_stride + head * mask.head_stride + (query + row) * mask.query_stride +
                 (mask.key_stride == 0 ? 0 : key);
      }
      const int64_t visible = diagonal ? std::clamp<int64_t>(query + row - key + 1, 0, columns) : columns;
      restore_weights(weights + row * columns, addend, mask.key_stride == 0, *tensors.logsumexp.at(batch, head, query + row), visible,
                      columns);
    }
    // grad_v += weights^T grad_out
    sgemm_serial(profile, 'N', 'T', d, columns, rows, 1.0f, grad_out, tensors.grad_out.row_stride, weights, columns, 1.0f,
         tensors.grad_value.at(batch, head, key), tensors.grad_value.row_stride);
    sgemm_serial(profile, 'T', 'N', columns, rows, d, 1.0f, tensors.value.at(batch, head, key), tensors.value.row_stride, grad_out,
         tensors.grad_out.row_stride, 0.0f, grad_weights, columns);
    for (int64_t row = 0; row < rows; ++row) {
      const Wide d_row = splat<Wide>(dsum[row]);
      map_row(weights + row * columns, grad_weights + row * columns, grad_weights + row * columns, columns,
              [&](Wide weight, Wide grad) { return weight * (grad - d_row); });
    }
    // grad_q += scale * grad_weights k, grad_k += scale * grad_weights^T q
    sgemm_serial(profile, 'N', 'N', d, rows, columns, shape.scale, k, tensors.key.row_stride, grad_weights, columns, 1.0f,
         tensors.grad_query.at(batch, head, query), tensors.grad_query.row_stride);
    sgemm_serial(profile, 'N', 'T', d, columns, rows, shape.scale, q, tensors.query.row_stride, grad_weights, columns, 1.0f,
         tensors.grad_key.at(batch, head, key), tensors.grad_key.row_stride);
  }
}

}  // namespace

void flash_attention_backward(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors) {
  const int64_t block = query_block(shape.queries);
  parallel_run(shape.batch * shape.heads, [&](int64_t task) {
    const int64_t head = task % shape.heads, batch = task / shape.heads;
    for (int64_t query = 0; query < shape.queries; query += block) {
      backward_block(profile, shape, tensors, batch, head, query, std::min(block, shape.queries - query));
    }
  });
}

}  // namespace densecore::DENSECORE_ISA
