// Bindings of the maximum and minimum of a whole tensor (ATen/native/ReduceAllOps.cpp). aminmax along a dimension, whose loop is scalar
// code, is the host's.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>

#include <optional>
#include <tuple>

#include "aten/Reduce.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

using at::Tensor;

struct Extreme {
  const Dispatched<ExtremeRangeFn>& range;
  const Dispatched<ExtremeJoinFn>& join;
};
constexpr Extreme kMaximum{max_range, max_join};
constexpr Extreme kMinimum{min_range, min_join};

float extreme_of(const Extreme& e, const Tensor& self) {
  const Tensor input = self.contiguous();
  const float* x = input.const_data_ptr<float>();
  const auto ranges = reduce_ranges(input.numel(), current_profile(), [&](int64_t begin, int64_t end) {
    return e.range(x + begin, end - begin);
  });
  return e.join(ranges.data(), static_cast<int>(ranges.size()));
}

template <class Op>
Tensor extreme(const Extreme& e, const Tensor& self) {
  if (self.scalar_type() != at::kFloat) return host::call<Op>(self);
  if (self.numel() == 0) host::error<Op>(self);
  Tensor out = at::empty({}, self.options());
  *out.mutable_data_ptr<float>() = extreme_of(e, self);
  return out;
}

template <class Op>
Tensor& extreme_out(const Extreme& e, const Tensor& self, Tensor& out) {
  if (self.scalar_type() != at::kFloat || out.scalar_type() != at::kFloat) return host::call<Op>(self, out);
  if (self.numel() == 0) return host::run<Op>(self, out);  // the infinity that every element would replace
  at::native::resize_output(out, {});
  *out.mutable_data_ptr<float>() = extreme_of(e, self);
  return out;
}

Tensor max(const Tensor& self) { return extreme<at::_ops::max>(kMaximum, self); }
DENSECORE_OP("aten::max", max);
Tensor& max_out(const Tensor& self, Tensor& out) { return extreme_out<at::_ops::max_unary_out>(kMaximum, self, out); }
DENSECORE_OP("aten::max.unary_out", max_out);
Tensor min(const Tensor& self) { return extreme<at::_ops::min>(kMinimum, self); }
DENSECORE_OP("aten::min", min);
Tensor& min_out(const Tensor& self, Tensor& out) { return extreme_out<at::_ops::min_unary_out>(kMinimum, self, out); }
DENSECORE_OP("aten::min.unary_out", min_out);

at::DimVector whole_sizes(const Tensor& self, bool keepdim) { return at::DimVector(keepdim ? self.dim() : 0, 1); }

std::tuple<Tensor, Tensor> aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  using Op = at::_ops::aminmax;
  if (self.scalar_type() != at::kFloat) return host::call<Op>(self, dim, keepdim);
  if (dim) return host::run<Op>(self, dim, keepdim);
  if (self.numel() == 0) host::error<Op>(self, dim, keepdim);
  Tensor low = at::empty(whole_sizes(self, keepdim), self.options()), high = at::empty_like(low);
  *low.mutable_data_ptr<float>() = extreme_of(kMinimum, self);
  *high.mutable_data_ptr<float>() = extreme_of(kMaximum, self);
  return {low, high};
}
DENSECORE_OP("aten::aminmax", aminmax);

std::tuple<Tensor&, Tensor&> aminmax_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& low, Tensor& high) {
  using Op = at::_ops::aminmax_out;
  if (self.scalar_type() != at::kFloat || low.scalar_type() != at::kFloat || high.scalar_type() != at::kFloat) {
    return host::call<Op>(self, dim, keepdim, low, high);
  }
  if (dim) return host::run<Op>(self, dim, keepdim, low, high);
  if (self.numel() == 0) host::error<Op>(self, dim, keepdim, low, high);
  at::native::resize_output(low, whole_sizes(self, keepdim));
  at::native::resize_output(high, whole_sizes(self, keepdim));
  *low.mutable_data_ptr<float>() = extreme_of(kMinimum, self);
  *high.mutable_data_ptr<float>() = extreme_of(kMaximum, self);
  return {low, high};
}
DENSECORE_OP("aten::aminmax.out", aminmax_out);

}  // namespace
}  // namespace densecore
