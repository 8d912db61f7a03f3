// Views and other metadata: ATen's own functions work on any device's tensor.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "aten/op_registration.h"

namespace densecore {
namespace {

DENSECORE_DEVICE_OP("aten::view", at::native::view);
DENSECORE_DEVICE_OP("aten::_reshape_alias", at::native::_reshape_alias);
DENSECORE_DEVICE_OP("aten::as_strided", at::native::as_strided_tensorimpl);
DENSECORE_DEVICE_OP("aten::unfold", at::native::unfold);
DENSECORE_DEVICE_OP("aten::view_as_real", at::native::view_as_real);
DENSECORE_DEVICE_OP("aten::view_as_complex", at::native::view_as_complex);
// Reads one element; host memory needs no transfer.
DENSECORE_DEVICE_OP("aten::_local_scalar_dense", at::native::_local_scalar_dense_cpu);

}  // namespace
}  // namespace densecore
