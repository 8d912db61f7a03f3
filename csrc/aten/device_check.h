// Torch's rule for mixed devices: a CPU tensor beside densecore tensors must be 0-dimensional, a few ops excepted.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace densecore {

// Ops that torch lets read or write across devices: copies, and indexing by CPU indices. `name` is "aten::copy_".
bool may_mix_devices(const std::string& name);
[[noreturn]] void raise_mixed_devices(const char* name);

// Collects the devices of a call's tensors.
struct DeviceCheck {
  bool host = false;
  bool device = false;

  void see(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.is_privateuseone()) {
      device = true;
    } else if (tensor.dim() > 0) {
      host = true;
    }
  }
  void see(const std::optional<at::Tensor>& tensor) {
    if (tensor) see(*tensor);
  }
  void see(at::ArrayRef<at::Tensor> tensors) {
    for (const auto& tensor : tensors) see(tensor);
  }
  void see(const at::ITensorListRef& tensors) {
    for (const auto& tensor : tensors) see(tensor);
  }
  void see(const c10::List<std::optional<at::Tensor>>& tensors) {
    for (const std::optional<at::Tensor> tensor : tensors) see(tensor);
  }
  template <class T>
  void see(const T&) {}

  bool mixed() const { return host && device; }
};

}  // namespace densecore
