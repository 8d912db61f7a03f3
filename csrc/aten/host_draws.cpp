#include "aten/host_draws.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/uniform_native.h>

#include "aten/cpu_key.h"
#include "aten/errors.h"
#include "aten/op_policy.h"

namespace densecore {
namespace {

// These evaluate log, cos or tan with the host's vector library. random_, bernoulli_, randperm, multinomial and uniform_(0, 1) give
// the same bits on every host.
template <auto fn, class FnType = decltype(fn)>
struct Counted;
template <auto fn, class... Args>
struct Counted<fn, at::Tensor& (*)(at::Tensor&, Args...)> {
  static at::Tensor& call(at::Tensor& self, Args... args) {
    if (self.numel() != 0) detail::draws.fetch_add(1, std::memory_order_relaxed);
    return fn(self, std::forward<Args>(args)...);
  }
};

template <auto fn>
void count(const char* name) {
  keep_on_cpu_key(name, c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN((&Counted<fn>::call))),
                  c10::impl::CppSignature::make<decltype(fn)>());
}

// from + x * (to - from) is a fused multiply-add in the reference and need not be one here.
at::Tensor& counted_uniform_(at::Tensor& self, double from, double to, std::optional<at::Generator> generator) {
  if (self.numel() != 0 && (from != 0 || to != 1)) detail::draws.fetch_add(1, std::memory_order_relaxed);
  return at::native::uniform_(self, from, to, std::move(generator));
}

}  // namespace

void register_draw_counters() {
  count<&at::native::normal_>("aten::normal_");
  count<&at::native::log_normal_>("aten::log_normal_");
  count<&at::native::cauchy_>("aten::cauchy_");
  count<&at::native::exponential_>("aten::exponential_");
  count<&at::native::geometric_>("aten::geometric_");
  keep_on_cpu_key("aten::uniform_", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(counted_uniform_)),
                  c10::impl::CppSignature::make<decltype(&counted_uniform_)>());
}

int64_t host_draws() { return detail::draws.load(); }

void accept_host_draws() { detail::accepted_draws.store(detail::draws.load()); }

void detail::report_host_draws() {
  const auto mode = uncertified_mode();
  if (mode == Uncertified::kHost) return;
  const auto pending = draws.load() - accepted_draws.load();
  const std::string message =
      std::to_string(pending) +
      " random draw(s) on the CPU (normal_, uniform_(a, b) and the like) used this host's own arithmetic before values came to device 'densecore': what was "
      "drawn there may differ from the reference's bits. Ways out: start the program with `densecore run -- script.py`, set "
      "DENSECORE_EMULATE_CPU=random, call torch_densecore.emulate_cpu(\"random\") before drawing, draw on device 'densecore', or accept "
      "these draws with torch_densecore.accept_cpu_draws()";
  if (mode != Uncertified::kWarn) raise_uncertified(message);
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) TORCH_WARN(message);
}

}  // namespace densecore
