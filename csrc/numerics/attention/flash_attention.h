// Scaled dot-product attention on the CPU, forward and backward, float32.
//
// Reproduces at::native::cpu_flash_attention and cpu_flash_attention_backward of the reference wheel
// (ATen/native/cpu/FlashAttentionKernel.cpp): queries in blocks of 32, 64 or 256 rows, keys in blocks of 512.
#pragma once

#include <cstdint>

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// A float32 tensor [batch, head, row, head_size] by its strides in elements, which may be 0; the last dimension is contiguous.
template <class T>
struct HeadRows {
  T* data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;

  T* at(int64_t batch, int64_t head, int64_t row) const {
    return data + batch * batch_stride + head * head_stride + row * row_stride;
  }
};

// The additive mask [batch or 1, heads or 1, queries or 1, keys or 1]; a broadcast dimension has stride 0. As in the
// reference, a key stride other than 0 is taken for 1. data is null where there is no mask.
struct AttentionMask {
  const float* data = nullptr;
  int64_t batch_stride = 0;
  int64_t head_stride = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;
};

// Grouped queries: `group` query heads in a row share a head of keys and values (1: each has its own).
struct AttentionShape {
  int64_t batch;
  int64_t heads;
  int64_t group;
  int64_t queries;
  int64_t keys;
  int64_t head_size;
  float scale;
  bool causal;
  AttentionMask mask;
};

struct AttentionForward {
  HeadRows<const float> query, key, value;
  HeadRows<float> out;
  HeadRows<float> logsumexp;  // row_stride apart, one float a row
};

// The gradients are accumulated with beta = 1: the caller zeroes them.
struct AttentionBackward {
  HeadRows<const float> grad_out, query, key, value, out, logsumexp;
  HeadRows<float> grad_query, grad_key, grad_value;
};

using FlashAttentionFn = void(const Profile& profile, const AttentionShape& shape, const AttentionForward& tensors);
using FlashAttentionBackwardFn = void(const Profile& profile, const AttentionShape& shape, const AttentionBackward& tensors);
DENSECORE_KERNEL(flash_attention, FlashAttentionFn);
DENSECORE_KERNEL(flash_attention_backward, FlashAttentionBackwardFn);

inline constexpr int64_t kKeyBlock = 512;
// Rows of a query block, by the number of queries.
constexpr int64_t query_block(int64_t queries) { return queries >= 768 ? 256 : queries >= 192 ? 64 : 32; }

}  // namespace densecore
