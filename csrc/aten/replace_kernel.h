// Puts a kernel over one that torch or this extension has on a dispatch key.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace densecore {

// Until the handle is destroyed, which gives the former kernel back. A boxed kernel has no signature.
c10::RegistrationHandleRAII replace_kernel(const c10::OperatorName& op, c10::DispatchKey key, c10::KernelFunction kernel,
                                           std::optional<c10::impl::CppSignature> signature = std::nullopt);

}  // namespace densecore
