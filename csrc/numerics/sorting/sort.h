// Sorting as the reference's C++ library does it: which of equal keys comes first is decided by the library's algorithm, so it is
// part of the result (the indices, and values that differ in bits alone: zeros and NaN).
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

enum class KeyType { kF32, kF64, kU8, kI8, kI16, kI32, kI64 };

// Sorts `rows` rows of n keys in place, not stably, and writes where each key was. NaN is the largest.
using SortRowsFn = void(KeyType type, void* keys, int64_t* indices, int64_t rows, int64_t n, bool descending);
DENSECORE_KERNEL(sort_rows, SortRowsFn);

// The k largest or smallest of every row of n keys: keys and indices, [rows, k]. `sorted`: in order.
using TopkRowsFn = void(KeyType type, const void* keys, int64_t rows, int64_t n, int64_t k, bool largest, bool sorted, void* values,
                        int64_t* indices);
DENSECORE_KERNEL(topk_rows, TopkRowsFn);

}  // namespace densecore
