// The reference profile in force on this thread.
#pragma once

#include <string>

#include "numerics/profile.h"

namespace densecore {

// Read it once at a binding's entry and pass it down.
const Profile& current_profile();
void set_process_profile(const Profile& profile);
// Whether a ProfileGuard is in force on this thread.
bool has_thread_profile();
// One line for messages.
std::string describe(const Profile& profile);

// Replaces the profile on this thread while it lives.
class ProfileGuard {
 public:
  explicit ProfileGuard(const Profile& profile);
  ~ProfileGuard();
  ProfileGuard(const ProfileGuard&) = delete;
  ProfileGuard& operator=(const ProfileGuard&) = delete;

 private:
  const Profile* previous_;
};

}  // namespace densecore
