#include "aten/device_check.h"

#include <c10/util/Exception.h>

#include <unordered_set>

namespace densecore {
namespace {

bool may_mix_devices(const std::string& op, bool host_first) {
  static const std::unordered_set<std::string> copies{"aten::copy_", "aten::_foreach_copy_", "aten::set_.source_Tensor"};
  static const std::unordered_set<std::string> indexing{  // a densecore tensor by CPU indices
      "aten::index.Tensor", "aten::index.Tensor_out", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put"};
  return copies.count(op) != 0 || (indexing.count(op) != 0 && !host_first);
}

}  // namespace

void DeviceCheck::decide(const std::string& op) const {
  TORCH_CHECK(!generator || device, "Expected a 'cpu' device type for generator but found 'densecore' (when checking arguments of ", op,
              ")");
  TORCH_CHECK(may_mix_devices(op, host_first),
              "Expected all tensors to be on the same device, but found at least two devices, densecore:0 and cpu! (when checking "
              "arguments of ", op, ")");
}

}  // namespace densecore
