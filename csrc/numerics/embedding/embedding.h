// The gradient of a table of rows that were looked up by index.
#pragma once

#include "../dispatch.h"
#include "../profile.h"

namespace densecore {

// table[index[i]] += grad[i] for i = 0, 1, ..., count - 1, except where index[i] is padding. `index` has values in [0, rows); table is
// [rows, width] and starts as zeros, grad is [count, width]. With `frequency`, grad[i] is multiplied by 1 / (how often index[i] occurs)
// and the product is fused into the sum.
using EmbeddingBackwardFn = void(const Profile& profile, const float* grad, const int64_t* index, int64_t count, int64_t padding,
                                 const int64_t* frequency, float* table, int64_t rows, int64_t width);
DENSECORE_KERNEL(embedding_dense_backward, EmbeddingBackwardFn);

}  // namespace densecore
