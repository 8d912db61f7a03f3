#include "aten/host_draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cauchy_native.h>
#include <ATen/ops/exponential_native.h>
#include <ATen/ops/geometric_native.h>
#include <ATen/ops/log_normal_native.h>
#include <ATen/ops/normal_native.h>
#include <ATen/ops/uniform_native.h>

#include <cstring>

#include "aten/cpu_key.h"
#include "aten/errors.h"
#include "aten/nested_call.h"
#include "aten/op_policy.h"

namespace densecore {
namespace {

// A draw within a host call was decided upon there: by the registry's tier, or by an override.
void count_draw() {
  if (!host::NestedCall::active()) detail::draws.fetch_add(1, std::memory_order_relaxed);
}

// These evaluate log, cos or tan with the host's vector library. random_, bernoulli_, randperm, multinomial and uniform_(0, 1) give
// the same bits on every host.
template <auto fn, class FnType = decltype(fn)>
struct Counted;
template <auto fn, class... Args>
struct Counted<fn, at::Tensor& (*)(at::Tensor&, Args...)> {
  static at::Tensor& call(at::Tensor& self, Args... args) {
    if (self.numel() != 0) count_draw();
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
  if (self.numel() != 0 && (from != 0 || to != 1)) count_draw();
  return at::native::uniform_(self, from, to, std::move(generator));
}

// The default generator while nothing is counted.
struct Uncounted {
  at::Tensor accounted;  // its state when its draws were accounted for last
  bool drawn = false;    // there were draws of an unknown kind
};

Uncounted& uncounted() {
  static auto* state = new Uncounted;
  return *state;
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.nbytes() == b.nbytes() && std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Whether the default generator gave numbers since it was seeded or accounted for.
bool drawn_from() {
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = generator.get_state();
  at::Generator fresh = generator.clone();
  fresh.set_current_seed(generator.current_seed());
  return !same_bytes(state, fresh.get_state()) && !same_bytes(state, uncounted().accounted);
}

}  // namespace

void count_host_draws() {
  if (detail::counting.exchange(true)) return;
  count<&at::native::normal_>("aten::normal_");
  count<&at::native::log_normal_>("aten::log_normal_");
  count<&at::native::cauchy_>("aten::cauchy_");
  count<&at::native::exponential_>("aten::exponential_");
  count<&at::native::geometric_>("aten::geometric_");
  keep_on_cpu_key("aten::uniform_", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(counted_uniform_)),
                  c10::impl::CppSignature::make<decltype(&counted_uniform_)>());
}

bool counting_host_draws() { return detail::counting.load(); }

void look_for_draws() {
  if (counting_host_draws() || !drawn_from()) return;
  if (is_emulated_on_cpu("aten::normal_")) return forget_draws();  // these were the reference's
  uncounted().drawn = true;
}

void forget_draws() {
  if (!counting_host_draws()) uncounted().accounted = at::detail::getDefaultCPUGenerator().get_state();
}

void detail::first_transfer() {
  look_for_draws();
  count_host_draws();
  if (uncounted().drawn) detail::draws.fetch_add(1);
}

int64_t host_draws() { return detail::draws.load(); }

void accept_host_draws() {
  detail::accepted_draws.store(detail::draws.load());
  uncounted().drawn = false;
  forget_draws();
}

void detail::report_host_draws() {
  const auto mode = uncertified_mode();
  if (mode == Uncertified::kHost) return;
  const auto pending = draws.load() - accepted_draws.load();
  const std::string what = uncounted().drawn ? "some random draw(s) on the CPU, made before the device's first use, may have used"
                                             : std::to_string(pending) + " random draw(s) on the CPU (normal_, uniform_(a, b) and the like) used";
  const std::string message =
      what + " this host's own arithmetic before values came to device 'densecore': what was drawn there may differ from the reference's bits. Ways out: start the program with `densecore run -- script.py`, set "
      "DENSECORE_EMULATE_CPU=random, call torch_densecore.emulate_cpu(\"random\") before drawing, draw on device 'densecore', or accept "
      "these draws with torch_densecore.accept_cpu_draws()";
  if (mode != Uncertified::kWarn) raise_uncertified(message);
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) TORCH_WARN(message);
}

}  // namespace densecore
