// Bindings of range factories (ATen/native/RangeFactories.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/Parallel.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/range_ops.h>

#include <cmath>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/parallel.h"
#include "numerics/pointwise/range_factories.h"

namespace densecore {
namespace {

// The host checks the bounds and sizes `out`; of floats it is given our values.
at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  if (out.scalar_type() != at::kFloat) return host::call<at::_ops::arange_start_out>(start, end, step, out);
  host::run<at::_ops::arange_start_out>(start, end, step, out);
  at::Tensor dense = out.is_contiguous() ? out : at::empty_like(out, at::MemoryFormat::Contiguous);
  float* y = dense.mutable_data_ptr<float>();
  const double first = start.toDouble(), stride = step.toDouble();
  parallel_for(current_profile(), 0, dense.numel(), at::internal::GRAIN_SIZE,
               [&](int64_t begin, int64_t stop) { arange_f32(first, stride, begin, y + begin, stop - begin); });
  if (!out.is_contiguous()) out.copy_(dense);
  return out;
}
DENSECORE_OP("aten::arange.start_out", arange_out);

// Of integers ATen divides by the step as an integer. A step below 1 is 0 there: Arm's quotient is 0, so that the result has one
// element, and x86 raises a signal that ends the process.
at::Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, at::Tensor& out) {
  if (!at::isIntegralType(out.scalar_type(), /*includeBool=*/false)) return host::call<at::_ops::range_out>(start, end, step, out);
  const bool divides_by_zero = step.isFloatingPoint() && std::abs(step.toDouble()) < 1;
  if (!divides_by_zero) return host::run<at::_ops::range_out>(start, end, step, out);
  at::Tensor checked = at::empty({0}, out.options().dtype(at::kDouble));
  host::run<at::_ops::range_out>(start, end, step, checked);  // the bounds, checked as doubles
  return host::run<at::_ops::range_out>(start, start, 1, out);
}
DENSECORE_OP("aten::range.out", range_out);

}  // namespace
}  // namespace densecore
