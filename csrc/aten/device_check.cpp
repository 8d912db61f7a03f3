#include "aten/device_check.h"

#include <c10/util/Exception.h>

#include <unordered_set>

namespace densecore {

bool may_mix_devices(const std::string& name) {
  static const std::unordered_set<std::string> names{
      "aten::copy_", "aten::_foreach_copy_", "aten::index.Tensor", "aten::index.Tensor_out",
      "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index_put", "aten::set_.source_Tensor",
  };
  return names.count(name) != 0;
}

void raise_mixed_devices(const char* name) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, densecore:0 and cpu! (when "
              "checking arguments of ", name, ")");
}

}  // namespace densecore
