// aten::sum and aten::nansum with vectors of the profile's lanes.
#pragma once

#include <cstdint>

#include "../profile.h"

namespace densecore::variant {

// ReduceLoopFn (reduce/SumKernel.h) for a profile; `skip_nan` for nansum.
void sum_loop(const Profile& profile, bool skip_nan, char* const* data, const int64_t* strides, int64_t size0, int64_t size1);

}  // namespace densecore::variant
