// Type promotion and iterators of elementwise ops whose kernels take one floating dtype. On a device other than the CPU, TensorIterator
// does not convert operands, so a binding converts them here.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "aten/Loops.h"

namespace densecore {

inline bool is_float_or_double(at::ScalarType type) { return type == at::kFloat || type == at::kDouble; }

// torch's promoted dtype of some tensors (at::result_type).
inline at::ScalarType promoted_type(std::initializer_list<at::Tensor> tensors) {
  const at::ScalarType first = tensors.begin()->scalar_type();
  if (std::all_of(tensors.begin(), tensors.end(), [first](const at::Tensor& tensor) { return tensor.scalar_type() == first; })) return first;
  at::native::ResultTypeState state = {};
  for (const at::Tensor& tensor : tensors) state = at::native::update_result_type_state(tensor, state);
  return at::native::result_type(state);
}

inline at::Tensor as_type(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type ? tensor : tensor.to(type);
}

// Broadcasts `inputs`, all of one dtype, against `out`; an undefined `out` is allocated.
inline at::TensorIterator pointwise_iterator(const at::Tensor& out, std::initializer_list<at::Tensor> inputs) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true).allow_cpu_scalars(true);
  config.add_owned_output(out);
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build();
}

// Runs compute(tensor) for a result of dtype `type`: on `out` itself if it has that dtype, else on a tensor of its own that is then
// copied, after fit(sizes) has made `out` ready for its shape. Where torch refuses the conversion, refuse() raises its exception.
template <class Compute, class Refuse, class Fit>
at::Tensor& compute_converted(at::Tensor& out, at::ScalarType type, const Compute& compute, const Refuse& refuse, const Fit& fit) {
  if (out.scalar_type() == type) {
    compute(out);
    return out;
  }
  if (!c10::canCast(type, out.scalar_type())) refuse();
  const at::Tensor result = compute(at::Tensor());
  fit(result.sizes());
  return out.copy_(result);
}

template <class Compute, class Refuse>
at::Tensor& compute_into(at::Tensor& out, at::ScalarType type, const Compute& compute, const Refuse& refuse) {
  return compute_converted(out, type, compute, refuse, [&](at::IntArrayRef sizes) { at::native::resize_output(out, sizes); });
}

// The same for an in-place form, which keeps its shape.
template <class Compute, class Refuse>
at::Tensor& compute_in_place(at::Tensor& self, at::ScalarType type, const Compute& compute, const Refuse& refuse) {
  return compute_converted(self, type, compute, refuse, [&](at::IntArrayRef sizes) {
    if (sizes != self.sizes()) refuse();
  });
}

// A loop with one value as its last operand.
template <int kOperands, class T, class Body>
void with_scalar_operand(const Loop2d& loop, const T& value, const Body& body) {
  std::array<char*, kOperands + 1> data;
  std::array<int64_t, 2 * (kOperands + 1)> strides = {};
  for (int k = 0; k < kOperands; ++k) {
    data[k] = loop.data[k];
    strides[k] = loop.strides[k];
    strides[kOperands + 1 + k] = loop.strides[kOperands + k];
  }
  data[kOperands] = const_cast<char*>(reinterpret_cast<const char*>(&value));
  body(Loop2d{data.data(), strides.data(), loop.inner, loop.outer});
}

}  // namespace densecore
