// Walks the elements that an output reduces, in order.
#pragma once

#include "../lanes.h"
#include "ReduceOpsKernel.h"

namespace densecore::DENSECORE_ISA {

inline constexpr int kMaxDims = 64;  // at::TensorIterator's limit

// f(offset in bytes) for elements [begin, end), dimension 0 fastest.
template <class F>
DENSECORE_INLINE void each_reduced_element(ReducedDims dims, int64_t begin, int64_t end, F f) {
  int64_t index[kMaxDims] = {};
  int64_t offset = 0;
  int64_t rest = begin;
  for (int d = 0; d < dims.count; ++d) {
    index[d] = rest % dims.sizes[d];
    rest /= dims.sizes[d];
    offset += index[d] * dims.strides[d];
  }
  const int64_t size = dims.count > 0 ? dims.sizes[0] : 1, stride = dims.count > 0 ? dims.strides[0] : 0;
  for (int64_t i = begin; i < end;) {
    const int64_t run = end - i < size - index[0] ? end - i : size - index[0];
    for (int64_t k = 0; k < run; ++k) f(offset + k * stride);
    i += run;
    offset -= index[0] * stride;
    index[0] = 0;
    for (int d = 1; d < dims.count; ++d) {
      offset += dims.strides[d];
      if (++index[d] < dims.sizes[d]) break;
      offset -= index[d] * dims.strides[d];
      index[d] = 0;
    }
  }
}

DENSECORE_INLINE int64_t reduced_count(ReducedDims dims) {
  int64_t count = 1;
  for (int d = 0; d < dims.count; ++d) count *= dims.sizes[d];
  return count;
}

// The same element of kReduceBlock arrays; a shorter block repeats its last array.
struct BlockReader {
  const char* in[kReduceBlock];
  bool neighbours;  // the arrays' elements lie side by side

  BlockReader(const char* const* first, int outputs) : neighbours(outputs == kReduceBlock) {
    for (int k = 0; k < kReduceBlock; ++k) {
      in[k] = first[k < outputs ? k : outputs - 1];
      neighbours = neighbours && in[k] == in[0] + k * static_cast<int64_t>(sizeof(float));
    }
  }
  DENSECORE_INLINE F32<kReduceBlock> read(int64_t offset) const {
    using V = F32<kReduceBlock>;
    if (neighbours) return load<V>(reinterpret_cast<const float*>(in[0] + offset));
    V v;
    for (int k = 0; k < kReduceBlock; ++k) v[k] = *reinterpret_cast<const float*>(in[k] + offset);
    return v;
  }
};

}  // namespace densecore::DENSECORE_ISA
