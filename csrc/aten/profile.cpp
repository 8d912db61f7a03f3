#include "aten/profile.h"

#include <atomic>

namespace densecore {
namespace {

const Profile initial_profile{};
std::atomic<const Profile*> process_profile{&initial_profile};
thread_local const Profile* thread_profile = nullptr;

}  // namespace

const Profile& current_profile() {
  return thread_profile ? *thread_profile : *process_profile.load(std::memory_order_acquire);
}

bool has_thread_profile() { return thread_profile != nullptr; }

// The old profile is not freed: a kernel on another thread may be reading it, and profiles are set a few times a process.
void set_process_profile(const Profile& profile) {
  process_profile.store(new Profile(profile), std::memory_order_release);
}

std::string describe(const Profile& profile) {
  return std::to_string(profile.threads) + " threads, " + std::to_string(profile.lanes) + " lanes";
}

ProfileGuard::ProfileGuard(const Profile& profile) : previous_(thread_profile) { thread_profile = &profile; }
ProfileGuard::~ProfileGuard() { thread_profile = previous_; }

}  // namespace densecore
