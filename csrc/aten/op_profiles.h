// What a profile says about single ops: a probed machine computes one op in 8 lanes and another in 16, and a third in a way that no
// kernel here has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "numerics/profile.h"

namespace densecore {

// On the device, our kernels of the ops in `own` run under the profiles given here instead of the process's; the ops in `refused` raise
// UncertifiedOpError with the reason, or are the host's where the mode for uncertified ops says so. Replaces what was set before.
// A profile that the thread has already (ProfileGuard) goes before these.
void set_op_profiles(const std::vector<std::pair<std::string, Profile>>& own,
                     const std::vector<std::pair<std::string, std::string>>& refused);

}  // namespace densecore
