// Counts random draws on the CPU whose bits depend on the host, so that the device can say so when they reach it.
//
// nanoGPT draws its initial weights on the CPU before .to(device); this host's normal_ gives other bits than the reference's. A program
// that has nothing to do with the device keeps torch's own kernels: counting begins when the program is seen to name the device
// (torch_densecore/draws.py), or else with the device's first use. Draws before that are known from the generator's state alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace densecore {

// Puts counting wrappers around the CPU's own kernels. Does nothing the second time.
void count_host_draws();
bool counting_host_draws();

// While nothing is counted: looks whether the default generator has been drawn from, before it is seeded anew or the draws are emulated.
void look_for_draws();
// While nothing is counted: regards what the default generator gave up to now as accounted for.
void forget_draws();

int64_t host_draws();
// Regards all draws so far as acceptable.
void accept_host_draws();

namespace detail {
inline std::atomic<int64_t> draws{0};
inline std::atomic<int64_t> accepted_draws{0};
inline std::atomic<bool> counting{false};
void first_transfer();
void report_host_draws();
}  // namespace detail

// To be called when host values come to the device: warns once a process or, in strict mode, raises.
inline void on_transfer_from_host() {
  if (!detail::counting.load(std::memory_order_relaxed)) detail::first_transfer();
  if (detail::draws.load(std::memory_order_relaxed) != detail::accepted_draws.load(std::memory_order_relaxed)) {
    detail::report_host_draws();
  }
}

}  // namespace densecore
