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
#include "reduce/extreme_f64.h"

namespace densecore {
namespace {

using at::Tensor;

enum class Extreme { kMaximum, kMinimum };
constexpr Extreme kMaximum = Extreme::kMaximum, kMinimum = Extreme::kMinimum;

bool has_kernel(const Tensor& self) { return self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble; }

float range_of(Extreme e, const float* x, int64_t n) { return e == kMaximum ? max_range(x, n) : min_range(x, n); }
double range_of(Extreme e, const double* x, int64_t n) { return extreme_range_f64(e == kMaximum, x, n); }
float join_of(Extreme e, const float* ranges, int count) { return e == kMaximum ? max_join(ranges, count) : min_join(ranges, count); }
double join_of(Extreme e, const double* ranges, int count) { return extreme_join_f64(e == kMaximum, ranges, count); }

template <class T>
void put_extreme(Extreme e, const Tensor& self, const Tensor& out) {
  const Tensor input = self.contiguous();
  const T* x = input.const_data_ptr<T>();
  const auto ranges = reduce_ranges(input.numel(), current_profile(), [&](int64_t begin, int64_t end) {
    return range_of(e, x + begin, end - begin);
  });
  *out.mutable_data_ptr<T>() = join_of(e, ranges.data(), static_cast<int>(ranges.size()));
}

void put_extreme(Extreme e, const Tensor& self, const Tensor& out) {
  if (self.scalar_type() == at::kDouble) return put_extreme<double>(e, self, out);
  put_extreme<float>(e, self, out);
}

template <class Op>
Tensor extreme(Extreme e, const Tensor& self) {
  if (!has_kernel(self)) return host::call<Op>(self);
  if (self.numel() == 0) host::error<Op>(self);
  Tensor out = at::empty({}, self.options());
  put_extreme(e, self, out);
  return out;
}

template <class Op>
Tensor& extreme_out(Extreme e, const Tensor& self, Tensor& out) {
  if (!has_kernel(self) || out.scalar_type() != self.scalar_type()) return host::call<Op>(self, out);
  if (self.numel() == 0) return host::run<Op>(self, out);  // the infinity that every element would replace
  at::native::resize_output(out, {});
  put_extreme(e, self, out);
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
  if (!has_kernel(self)) return host::call<Op>(self, dim, keepdim);
  if (dim) return host::run<Op>(self, dim, keepdim);
  if (self.numel() == 0) host::error<Op>(self, dim, keepdim);
  Tensor low = at::empty(whole_sizes(self, keepdim), self.options()), high = at::empty_like(low);
  put_extreme(kMinimum, self, low);
  put_extreme(kMaximum, self, high);
  return {low, high};
}
DENSECORE_OP("aten::aminmax", aminmax);

std::tuple<Tensor&, Tensor&> aminmax_out(const Tensor& self, std::optional<int64_t> dim, bool keepdim, Tensor& low, Tensor& high) {
  using Op = at::_ops::aminmax_out;
  if (!has_kernel(self) || low.scalar_type() != self.scalar_type() || high.scalar_type() != self.scalar_type()) {
    return host::call<Op>(self, dim, keepdim, low, high);
  }
  if (dim) return host::run<Op>(self, dim, keepdim, low, high);
  if (self.numel() == 0) host::error<Op>(self, dim, keepdim, low, high);
  at::native::resize_output(low, whole_sizes(self, keepdim));
  at::native::resize_output(high, whole_sizes(self, keepdim));
  put_extreme(kMinimum, self, low);
  put_extreme(kMaximum, self, high);
  return {low, high};
}
DENSECORE_OP("aten::aminmax.out", aminmax_out);

}  // namespace
}  // namespace densecore
