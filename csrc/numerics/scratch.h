// Scratch memory of the calling thread, kept for its next call.
#pragma once

#include <cstdint>

namespace densecore {

enum class Scratch { kAttention, kGemm, kSort, kCount };

// At least `count` floats, 64-byte aligned, uninitialised. Valid until the thread asks for the same slot again; a nested call
// must use another slot. Throws std::bad_alloc.
float* thread_scratch(Scratch slot, int64_t count);

}  // namespace densecore
