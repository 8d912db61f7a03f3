#include "aten/op_profiles.h"

#include <ATen/core/stack.h>

#include <atomic>
#include <memory>

#include "aten/errors.h"
#include "aten/host_call.h"
#include "aten/op_policy.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "aten/replace_kernel.h"

namespace densecore {
namespace {

using torch::jit::Stack;

struct UnderProfile final : c10::OperatorKernel {
  UnderProfile(c10::KernelFunction kernel, const Profile& profile) : kernel(std::move(kernel)), profile(profile) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (has_thread_profile()) return kernel.callBoxed(op, keys, stack);
    const ProfileGuard guard(profile);
    kernel.callBoxed(op, keys, stack);
  }

  const c10::KernelFunction kernel;
  const Profile profile;
};

struct Refused final : c10::OperatorKernel {
  explicit Refused(std::string reason) : reason(std::move(reason)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    const Uncertified mode = uncertified_mode();
    if (mode != Uncertified::kHost && mode != Uncertified::kWarn) raise_uncertified(reason);
    if (mode == Uncertified::kWarn && !warned.exchange(true)) TORCH_WARN(reason, "; the host's CPU kernel serves it");
    host::kernel_of(op).run(op, stack);
  }

  const std::string reason;
  std::atomic<bool> warned{false};
};

c10::KernelFunction own_kernel(const std::string& name) {
  for (const auto& kernel : op_kernels()) {
    if (name == kernel.name) return kernel.make();
  }
  TORCH_CHECK_VALUE(false, "densecore: ", name, " has no kernel of ours");
}

}  // namespace

void set_op_profiles(const std::vector<std::pair<std::string, Profile>>& own,
                     const std::vector<std::pair<std::string, std::string>>& refused) {
  // Not destroyed: the dispatcher may be gone before us when the process exits.
  static auto* registrations = new std::vector<c10::RegistrationHandleRAII>;
  registrations->clear();
  const auto put = [](const std::string& name, auto kernel) {
    auto function = c10::KernelFunction::makeFromBoxedFunctor(std::move(kernel));
    registrations->push_back(replace_kernel(parse_op_name(name), c10::DispatchKey::PrivateUse1, std::move(function)));
  };
  for (const auto& [name, profile] : own) put(name, std::make_unique<UnderProfile>(own_kernel(name), profile));
  for (const auto& [name, reason] : refused) put(name, std::make_unique<Refused>(reason));
}

}  // namespace densecore
