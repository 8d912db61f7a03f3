// Rows of (key, index) pairs through libc++'s algorithms (ATen/native/cpu/SortingKernel.cpp, TopKImpl.h).
#include "sort.h"

#include "../parallel.h"
#include "../scratch.h"
#include "libcxx_order.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class T>
struct Keyed {
  T key;
  int64_t index;
};

template <class T>
DENSECORE_INLINE bool is_not_a_number(T x) {
  return x != x;
}

struct Ascending {
  template <class K>
  bool operator()(const K& a, const K& b) const {
    return (!is_not_a_number(a.key) && is_not_a_number(b.key)) || a.key < b.key;
  }
};
struct Descending {
  template <class K>
  bool operator()(const K& a, const K& b) const {
    return (is_not_a_number(a.key) && !is_not_a_number(b.key)) || a.key > b.key;
  }
};

// f(key pointer type tag) for the C++ type of a KeyType.
template <class F>
void with_type(KeyType type, const F& f) {
  switch (type) {
    case KeyType::kF32: return f(float{});
    case KeyType::kF64: return f(double{});
    case KeyType::kU8: return f(uint8_t{});
    case KeyType::kI8: return f(int8_t{});
    case KeyType::kI16: return f(int16_t{});
    case KeyType::kI32: return f(int32_t{});
    case KeyType::kI64: return f(int64_t{});
  }
}

// f(row, buffer of n pairs) for every row, in tasks of about kKeysPerTask keys.
constexpr int64_t kKeysPerTask = 4096;
template <class T, class F>
void for_rows(int64_t rows, int64_t n, const F& f) {
  const int64_t rows_per_task = std::max<int64_t>(1, kKeysPerTask / std::max<int64_t>(1, n));
  parallel_run(divup(rows, rows_per_task), [&](int64_t task) {
    auto* buffer = reinterpret_cast<Keyed<T>*>(thread_scratch(Scratch::kSort, n * (sizeof(Keyed<T>) / sizeof(float))));
    const int64_t end = std::min(rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) f(row, buffer);
  });
}

template <class T>
void load_row(const T* keys, int64_t n, Keyed<T>* row) {
  for (int64_t i = 0; i < n; ++i) row[i] = {keys[i], i};
}
template <class T>
void store_row(const Keyed<T>* row, int64_t n, T* keys, int64_t* indices) {
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = row[i].key;
    indices[i] = row[i].index;
  }
}

// Partial sort where few are asked for, else quickselect and a sort of what it put in front.
template <class K, class Less>
void select(K* row, int64_t n, int64_t k, bool sorted, const Less& less) {
  if (k == 0) return;
  if (k * 64 <= n) return libcxx::partial_sort(row, row + k, row + n, less);
  libcxx::nth_element(row, row + k - 1, row + n, less);
  if (sorted) libcxx::sort(row, row + k - 1, less);
}

}  // namespace

void sort_rows(KeyType type, void* keys, int64_t* indices, int64_t rows, int64_t n, bool descending) {
  with_type(type, [&](auto tag) {
    using T = decltype(tag);
    for_rows<T>(rows, n, [&](int64_t r, Keyed<T>* row) {
      load_row(static_cast<const T*>(keys) + r * n, n, row);
      descending ? libcxx::sort(row, row + n, Descending()) : libcxx::sort(row, row + n, Ascending());
      store_row(row, n, static_cast<T*>(keys) + r * n, indices + r * n);
    });
  });
}

void topk_rows(KeyType type, const void* keys, int64_t rows, int64_t n, int64_t k, bool largest, bool sorted, void* values,
               int64_t* indices) {
  with_type(type, [&](auto tag) {
    using T = decltype(tag);
    for_rows<T>(rows, n, [&](int64_t r, Keyed<T>* row) {
      load_row(static_cast<const T*>(keys) + r * n, n, row);
      largest ? select(row, n, k, sorted, Descending()) : select(row, n, k, sorted, Ascending());
      store_row(row, k, static_cast<T*>(values) + r * k, indices + r * k);
    });
  });
}

}  // namespace densecore::DENSECORE_ISA
