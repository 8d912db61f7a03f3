// Kernels of ours on the CPU's dispatch key.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace densecore {

// Replaces torch's CPU kernel of an op for the life of the process; below a kernel of ours if the op is being emulated.
void keep_on_cpu_key(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature);

// Serves CPU tensors as the device serves its own, for the ops of `names`, until restore_cpu_kernels(names): by the kernels that
// DENSECORE_OP registered. Calls nest. An op without such a kernel raises ValueError and nothing is changed.
void emulate_on_cpu(const std::vector<std::string>& names);
void restore_cpu_kernels(const std::vector<std::string>& names);

// The same for all ops at once, those without a kernel of ours included: these run under the registry's tier, and tensors of other
// layouts (sparse, quantized, nested, oneDNN) are uncertified. torch takes no oneDNN branch meanwhile, as the reference has none.
void emulate_all_on_cpu();
void restore_all_cpu_kernels();
bool emulating_all_on_cpu();

// The ops that kernels of ours serve on the CPU at this moment.
std::vector<std::string> emulated_ops();
bool is_emulated_on_cpu(const std::string& name);

}  // namespace densecore
