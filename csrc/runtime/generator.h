// The device's random generators: the CPU's mt19937 stream under the device's name.
#pragma once

#include <ATen/core/Generator.h>

namespace densecore {

// Shares its state with torch's default CPU generator, as CPU tensors do.
const at::Generator& default_generator();
// An independent generator, as torch.Generator("densecore").
at::Generator new_generator();
// The CPU generator behind a densecore generator; raises torch's error for a generator of another device.
at::Generator host_generator(const at::Generator& generator);

}  // namespace densecore
