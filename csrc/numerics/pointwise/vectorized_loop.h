// ATen's vectorized_loop (ATen/native/cpu/Loops.h): which elements the reference computes with its vector code and which with its scalar
// code, where the compiler contracts a * b + c. Private to csrc/numerics/pointwise.
#pragma once

#include <array>
#include <tuple>
#include <utility>

#include "../lanes.h"
#include "../profile.h"
#include "loop2d.h"

namespace densecore::DENSECORE_ISA {

// x in every lane of V, or x itself where V is a scalar type.
template <class V, class T>
DENSECORE_INLINE V broadcast(T x) {
  if constexpr (std::is_arithmetic_v<V>) {
    return x;
  } else {
    return splat<V>(x);
  }
}

namespace detail {

template <class T>
DENSECORE_INLINE T load_scalar(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof(T));
  return x;
}

// Element i of an operand that is either contiguous or one value for all.
template <class V, class T>
DENSECORE_INLINE V load_operand(const char* p, bool one_value, int64_t i) {
  if (one_value) return broadcast<V>(load_scalar<T>(p));
  if constexpr (std::is_arithmetic_v<V>) {
    return load_scalar<T>(p + i * static_cast<int64_t>(sizeof(T)));
  } else {
    return load<V>(reinterpret_cast<const T*>(p) + i);
  }
}

// From i on, as many whole V as fit before end; returns the first element not done.
template <class V, class T, class Op, size_t... Input>
DENSECORE_INLINE int64_t run(char* const* data, int one_value, int64_t i, int64_t end, const Op& op, std::index_sequence<Input...>) {
  constexpr int64_t step = sizeof(V) / sizeof(T);
  for (; i + step <= end; i += step) {
    const V result = op(load_operand<V, T>(data[Input + 1], one_value == static_cast<int>(Input) + 1, i)...);
    std::memcpy(data[0] + i * static_cast<int64_t>(sizeof(T)), &result, sizeof(V));
  }
  return i;
}

// The reference's vectors cover whole pairs of `lanes` elements; here wide registers take them, then 16-byte ones.
template <class T, class Sequence, class VectorOp, class ScalarOp>
DENSECORE_INLINE void vectorized_row(char* const* data, int one_value, int64_t n, int64_t lanes, const VectorOp& vector_op,
                                     const ScalarOp& scalar_op, Sequence inputs) {
  using Wide = typename VectorType<T, kWidth * 4 / sizeof(T)>::type;
  using Narrow = typename VectorType<T, 16 / sizeof(T)>::type;
  const int64_t body = n - n % (2 * lanes);
  int64_t i = run<Wide, T>(data, one_value, 0, body, vector_op, inputs);
  i = run<Narrow, T>(data, one_value, i, body, vector_op, inputs);
  run<T, T>(data, one_value, i, n, scalar_op, inputs);
}

template <class T, class ScalarOp, size_t... Input>
DENSECORE_INLINE void strided_row(char* const* data, const int64_t* strides, int64_t n, const ScalarOp& op,
                                  std::index_sequence<Input...>) {
  for (int64_t i = 0; i < n; ++i) {
    const T result = op(load_scalar<T>(data[Input + 1] + i * strides[Input + 1])...);
    std::memcpy(data[0] + i * strides[0], &result, sizeof(T));
  }
}

}  // namespace detail

// Elements of one type T, one output and kInputs inputs. Contiguous rows (one input may be a single value) take vector_op in whole pairs
// of the reference's vectors and scalar_op in the tail; rows with other strides take scalar_op throughout.
template <class T, int kInputs, class VectorOp, class ScalarOp>
DENSECORE_INLINE void vectorized_loop(const Loop2d& loop, const Profile& profile, const VectorOp& vector_op, const ScalarOp& scalar_op) {
  constexpr int kOperands = kInputs + 1;
  constexpr std::make_index_sequence<kInputs> inputs;
  const int64_t lanes = profile.lanes * 4 / static_cast<int64_t>(sizeof(T));
  std::array<char*, kOperands> data;
  for (int k = 0; k < kOperands; ++k) data[k] = loop.data[k];
  int dense = 0, one_value = 0;
  for (int k = 0; k < kOperands; ++k) {
    dense += loop.strides[k] == static_cast<int64_t>(sizeof(T));
    if (k > 0 && loop.strides[k] == 0) one_value = k;
  }
  const bool vectorized = dense == kOperands || (dense == kOperands - 1 && one_value != 0);
  if (dense == kOperands) one_value = 0;
  for (int64_t row = 0; row < loop.outer; ++row) {
    if (vectorized) {
      detail::vectorized_row<T>(data.data(), one_value, loop.inner, lanes, vector_op, scalar_op, inputs);
    } else {
      detail::strided_row<T>(data.data(), loop.strides, loop.inner, scalar_op, inputs);
    }
    for (int k = 0; k < kOperands; ++k) data[k] += loop.strides[kOperands + k];
  }
}

// The same where vector and scalar code round alike.
template <class T, int kInputs, class Op>
DENSECORE_INLINE void vectorized_loop(const Loop2d& loop, const Profile& profile, const Op& op) {
  vectorized_loop<T, kInputs>(loop, profile, op, op);
}

}  // namespace densecore::DENSECORE_ISA
