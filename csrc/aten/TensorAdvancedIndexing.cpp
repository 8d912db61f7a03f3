// index_put_ (ATen/native/TensorAdvancedIndexing.cpp). Without accumulation it moves elements. With it, the sums of floats that share a
// place are added in the order of the indices; the host is kept to one thread, since its threads would race for that order.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_index_put_impl_ops.h>

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

}  // namespace
}  // namespace densecore
