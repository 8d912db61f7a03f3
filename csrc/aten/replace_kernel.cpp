#include "aten/replace_kernel.h"

#include <c10/util/Exception.h>

namespace densecore {
namespace {

// The dispatcher warns, once a process, when a kernel is replaced; here that is the purpose.
struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

c10::RegistrationHandleRAII replace_kernel(const c10::OperatorName& op, c10::DispatchKey key, c10::KernelFunction kernel,
                                           std::optional<c10::impl::CppSignature> signature) {
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  return c10::Dispatcher::singleton().registerImpl(op, key, std::move(kernel), std::move(signature), nullptr,
                                                   "torch_densecore");
}

}  // namespace densecore
