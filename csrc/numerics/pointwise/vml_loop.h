// ATen's loop over a vml function (cpu/UnaryOpsKernel.cpp, cpu/vml.h): vector code for every element. The last vector of a row is
// filled with zeros, and strided operands pass through a contiguous buffer, so the vectors of a row always begin at its
// elements 0, 4, 8, ... Private to csrc/numerics/pointwise.
#pragma once

#include "../lanes.h"
#include "loop2d.h"

namespace densecore::DENSECORE_ISA {

namespace detail {

template <class Op>
DENSECORE_INLINE void vml_row(const float* in, float* out, int64_t n, const Op& op) {
  using V = F32<kWidth>;
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) store(out + i, op(load<V>(in + i)));
  if (i < n) store_partial(out + i, op(load_partial<V>(in + i, n - i)), n - i);
}

template <class Op>
DENSECORE_INLINE void vml_strided_row(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t n, const Op& op) {
  constexpr int64_t kBuffer = 256;
  float buffer[kBuffer];
  for (int64_t begin = 0; begin < n; begin += kBuffer) {
    const int64_t count = n - begin < kBuffer ? n - begin : kBuffer;
    for (int64_t i = 0; i < count; ++i) std::memcpy(buffer + i, in + (begin + i) * in_stride, sizeof(float));
    vml_row(buffer, buffer, count, op);
    for (int64_t i = 0; i < count; ++i) std::memcpy(out + (begin + i) * out_stride, buffer + i, sizeof(float));
  }
}

}  // namespace detail

template <class Op>
DENSECORE_INLINE void vml_loop(const Loop2d& loop, const Op& op) {
  constexpr int64_t kDense = sizeof(float);
  char* out = loop.data[0];
  const char* in = loop.data[1];
  for (int64_t row = 0; row < loop.outer; ++row) {
    if (loop.strides[0] == kDense && loop.strides[1] == kDense) {
      detail::vml_row(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), loop.inner, op);
    } else {
      detail::vml_strided_row(in, loop.strides[1], out, loop.strides[0], loop.inner, op);
    }
    out += loop.strides[2];
    in += loop.strides[3];
  }
}

}  // namespace densecore::DENSECORE_ISA
