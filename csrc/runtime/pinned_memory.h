// Page-locked memory in name only: the device shares the host's memory, so nothing is to be locked, but programs ask whether a
// tensor is pinned.
#pragma once

#include <c10/core/Allocator.h>

namespace densecore {

c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

}  // namespace densecore
