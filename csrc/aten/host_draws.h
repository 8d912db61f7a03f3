// Counts random draws on the CPU whose bits depend on the host, so that the device can say so when they reach it.
//
// nanoGPT draws its initial weights on the CPU before .to(device); this host's normal_ gives other bits than the reference's.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace densecore {

// Puts counting wrappers around the CPU's own kernels; called once, when the module loads.
void register_draw_counters();

int64_t host_draws();
// Regards all draws so far as acceptable.
void accept_host_draws();

namespace detail {
inline std::atomic<int64_t> draws{0};
inline std::atomic<int64_t> accepted_draws{0};
void report_host_draws();
}  // namespace detail

// To be called when host values come to the device: warns once a process or, in strict mode, raises.
inline void on_transfer_from_host() {
  if (detail::draws.load(std::memory_order_relaxed) != detail::accepted_draws.load(std::memory_order_relaxed)) {
    detail::report_host_draws();
  }
}

}  // namespace densecore
