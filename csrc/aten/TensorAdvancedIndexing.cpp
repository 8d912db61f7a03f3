// index_put_ and index_add (ATen/native/TensorAdvancedIndexing.cpp). Without accumulation they move elements. With it, the sums of floats
// that share a place are added in the order of the indices; for index_put_ the host is kept to one thread, since its threads would race
// for that order.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_index_put_impl_ops.h>
#include <ATen/ops/index_add_ops.h>

#include "aten/host_call.h"
#include "aten/op_registration.h"

namespace densecore {
namespace {

class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {
    if (before_ != 1) at::set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) at::set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

at::Tensor& index_put(at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices, const at::Tensor& values, bool accumulate,
                      bool unsafe) {
  using Op = at::_ops::_index_put_impl_;
  const at::ScalarType type = self.scalar_type();
  if (!accumulate || at::isIntegralType(type, /*includeBool=*/true)) return host::run<Op>(self, indices, values, accumulate, unsafe);
  if (type != at::kFloat && type != at::kDouble) return host::call<Op>(self, indices, values, accumulate, unsafe);
  const OneThread guard;
  return host::run<Op>(self, indices, values, accumulate, unsafe);
}
DENSECORE_OP("aten::_index_put_impl_", index_put);

// A factor other than 1 is a product that not every host fuses with the sum.
bool adds_plainly(const at::Tensor& self, const at::Scalar& alpha) {
  const at::ScalarType type = self.scalar_type();
  return at::isIntegralType(type, /*includeBool=*/true) || ((type == at::kFloat || type == at::kDouble) && alpha.equal(1));
}

template <class Op, class... Args>
decltype(auto) add_at_indices(const at::Tensor& self, const at::Scalar& alpha, Args&&... args) {
  return adds_plainly(self, alpha) ? host::run<Op>(std::forward<Args>(args)...) : host::call<Op>(std::forward<Args>(args)...);
}

at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha) {
  return add_at_indices<at::_ops::index_add>(self, alpha, self, dim, index, source, alpha);
}
DENSECORE_OP("aten::index_add", index_add);
at::Tensor& index_add_(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha) {
  return add_at_indices<at::_ops::index_add_>(self, alpha, self, dim, index, source, alpha);
}
DENSECORE_OP("aten::index_add_", index_add_);
at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source, const at::Scalar& alpha,
                          at::Tensor& out) {
  return add_at_indices<at::_ops::index_add_out>(self, alpha, self, dim, index, source, alpha, out);
}
DENSECORE_OP("aten::index_add.out", index_add_out);

}  // namespace
}  // namespace densecore
