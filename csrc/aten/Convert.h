// Conversions of floats to integers, where hosts differ for values out of range.
#pragma once

#include <ATen/core/Tensor.h>

namespace densecore {

// Whether self.copy_(src) converts float32 or float64 to an integer type.
bool converts_to_integer(const at::Tensor& self, const at::Tensor& src);
// self.copy_(src) for such tensors.
at::Tensor& convert_to_integer(at::Tensor& self, const at::Tensor& src);

}  // namespace densecore
