// Kernels of ours on the CPU's dispatch key.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace densecore {

// Replaces torch's CPU kernel of an op for the life of the process.
void keep_on_cpu_key(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature);

// Puts the kernels that DENSECORE_OP registered for `names` over torch's own, until restore_cpu_kernels(names). Calls nest. An op
// without a kernel raises ValueError and nothing is changed.
void emulate_on_cpu(const std::vector<std::string>& names);
void restore_cpu_kernels(const std::vector<std::string>& names);
std::vector<std::string> emulated_ops();

}  // namespace densecore
