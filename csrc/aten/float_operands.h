// Which operands a float32 kernel takes, for ops whose integer inputs become floats.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>

namespace densecore {

inline bool is_float(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat; }

// float32, or an integer or bool type while torch's default dtype is float32.
inline bool becomes_float(const at::Tensor& tensor) {
  return is_float(tensor) || (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true) &&
                              c10::get_default_dtype_as_scalartype() == at::kFloat);
}

inline at::Tensor as_float(const at::Tensor& tensor) { return is_float(tensor) ? tensor : tensor.to(at::kFloat); }

// An out= tensor of another dtype takes the float result by a copy.
inline at::Tensor& copy_result(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace densecore
