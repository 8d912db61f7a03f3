// ATen's Pow.cpp: float32 results.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/result_type.h>

#include "aten/Loops.h"
#include "aten/float_operands.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/pointwise/pow.h"

namespace densecore {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorIterator;

// ---- one exponent for all ----------------------------------------------------------------------------------------------------

// A float32 base and a real exponent, or an integer base that a fractional exponent turns into float32.
bool claims(const Tensor& base, const Scalar& exponent) {
  return !exponent.isComplex() && becomes_float(base) && at::result_type(base, exponent) == at::kFloat;
}

// Into an output of the iterator's; ATen answers the exponents 0 and 1 without computing.
void run_scalar(TensorIterator& iter, const Tensor& base, const Scalar& exponent) {
  if (exponent.equal(0.0) || exponent.equal(false)) {
    iter.output().fill_(1);
  } else if (exponent.equal(1.0) || exponent.equal(true)) {
    iter.output().copy_(base);
  } else {
    const Profile& profile = current_profile();
    for_each(iter, profile, [&](const Loop2d& loop) { pow_scalar_f32(loop, profile, exponent.to<double>()); });
  }
}

Tensor pow_tensor_scalar(const Tensor& base, const Scalar& exponent) {
  if (!claims(base, exponent)) return host::call<at::_ops::pow_Tensor_Scalar>(base, exponent);
  const Tensor input = as_float(base);
  Tensor out;
  auto iter = TensorIterator::unary_op(out, input);
  run_scalar(iter, input, exponent);
  return iter.output();
}
DENSECORE_OP("aten::pow.Tensor_Scalar", pow_tensor_scalar);

Tensor& pow_tensor_scalar_out(const Tensor& base, const Scalar& exponent, Tensor& out) {
  if (!claims(base, exponent) || !is_float(out)) return host::call<at::_ops::pow_Tensor_Scalar_out>(base, exponent, out);
  const Tensor input = as_float(base);
  auto iter = TensorIterator::unary_op(out, input);
  run_scalar(iter, input, exponent);
  return out;
}
DENSECORE_OP("aten::pow.Tensor_Scalar_out", pow_tensor_scalar_out);

Tensor& pow_scalar_(Tensor& self, const Scalar& exponent) {
  if (!is_float(self) || exponent.isComplex()) return host::call<at::_ops::pow__Scalar>(self, exponent);
  auto iter = TensorIterator::unary_op(self, self);
  run_scalar(iter, self, exponent);
  return self;
}
DENSECORE_OP("aten::pow_.Scalar", pow_scalar_);

// ---- an exponent for each ----------------------------------------------------------------------------------------------------

bool claims(const Tensor& base, const Tensor& exponent) {
  return becomes_float(base) && becomes_float(exponent) && at::result_type(base, exponent) == at::kFloat;
}

void run_tensor(TensorIterator& iter) {
  const Profile& profile = current_profile();
  for_each(iter, profile, [&](const Loop2d& loop) { pow_f32(loop, profile); });
}

Tensor pow_tensor_tensor(const Tensor& base, const Tensor& exponent) {
  if (!claims(base, exponent)) return host::call<at::_ops::pow_Tensor_Tensor>(base, exponent);
  Tensor out;
  auto iter = TensorIterator::binary_op(out, as_float(base), as_float(exponent));
  run_tensor(iter);
  return iter.output();
}
DENSECORE_OP("aten::pow.Tensor_Tensor", pow_tensor_tensor);

Tensor& pow_tensor_tensor_out(const Tensor& base, const Tensor& exponent, Tensor& out) {
  if (!claims(base, exponent) || !is_float(out)) return host::call<at::_ops::pow_Tensor_Tensor_out>(base, exponent, out);
  auto iter = TensorIterator::binary_op(out, as_float(base), as_float(exponent));
  run_tensor(iter);
  return out;
}
DENSECORE_OP("aten::pow.Tensor_Tensor_out", pow_tensor_tensor_out);

Tensor& pow_tensor_(Tensor& self, const Tensor& exponent) {
  if (!is_float(self) || !claims(self, exponent)) return host::call<at::_ops::pow__Tensor>(self, exponent);
  auto iter = TensorIterator::binary_op(self, self, as_float(exponent));
  run_tensor(iter);
  return self;
}
DENSECORE_OP("aten::pow_.Tensor", pow_tensor_);

// ---- one base for all --------------------------------------------------------------------------------------------------------

bool claims(const Scalar& base, const Tensor& exponent) {
  return !base.isComplex() && becomes_float(exponent) && at::result_type(base, exponent) == at::kFloat;
}

Tensor one_value(const Scalar& value, const Tensor& like) {
  return at::full({}, value, like.options().dtype(at::kFloat));
}

void run_base(TensorIterator& iter, const Scalar& base) {
  if (base.equal(1.0)) {
    iter.output().fill_(1);
  } else {
    run_tensor(iter);
  }
}

Tensor pow_scalar(const Scalar& base, const Tensor& exponent) {
  if (!claims(base, exponent)) return host::call<at::_ops::pow_Scalar>(base, exponent);
  const Tensor input = as_float(exponent);
  // ATen makes this output contiguous, whatever the exponent's strides, which decide what is vector code.
  Tensor out = at::empty(input.sizes(), input.options());
  auto iter = TensorIterator::binary_op(out, one_value(base, input), input);
  run_base(iter, base);
  return out;
}
DENSECORE_OP("aten::pow.Scalar", pow_scalar);

Tensor& pow_scalar_out(const Scalar& base, const Tensor& exponent, Tensor& out) {
  if (!claims(base, exponent) || !is_float(out)) return host::call<at::_ops::pow_Scalar_out>(base, exponent, out);
  const Tensor input = as_float(exponent);
  at::native::resize_output(out, input.sizes());  // contiguous, as above
  auto iter = TensorIterator::binary_op(out, one_value(base, input), input);
  run_base(iter, base);
  return out;
}
DENSECORE_OP("aten::pow.Scalar_out", pow_scalar_out);

}  // namespace
}  // namespace densecore
