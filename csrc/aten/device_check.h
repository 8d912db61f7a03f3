// Torch's rule for mixed devices: a CPU tensor beside densecore tensors must be 0-dimensional, a few ops excepted; and a densecore
// generator needs a densecore tensor.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace densecore {

// Collects the devices of a call's tensors.
struct DeviceCheck {
  bool host = false;          // a CPU tensor with dimensions
  bool device = false;        // a densecore tensor
  bool host_first = false;    // the first tensor is such a CPU tensor
  bool generator = false;     // a densecore generator

  void see(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (tensor.is_privateuseone()) {
      device = true;
    } else if (tensor.dim() > 0) {
      host = true;
      host_first = host_first || !device;
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
  void see(const std::optional<at::Generator>& given) {
    if (given && given->defined()) generator = given->device().type() == c10::DeviceType::PrivateUse1;
  }
  template <class T>
  void see(const T&) {}

  // True for what torch refuses, and for the few ops that may mix devices.
  bool suspicious() const { return (host && device) || (generator && !device); }
  // Raises torch's error unless the op, such as "aten::copy_", may mix.
  void decide(const std::string& op) const;
};

}  // namespace densecore
