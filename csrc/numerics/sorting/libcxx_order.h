// The algorithms behind libc++'s std::sort, std::partial_sort and std::nth_element (LLVM 16 and later), which fix the order of equal
// keys: introsort with insertion sort below 24 elements and Tukey's ninther above 128, heaps with Floyd's sift-down, and quickselect
// with a median of three. Private to csrc/numerics/sorting.
#pragma once

#include <cstdint>
#include <utility>

#include "../lanes.h"

namespace densecore::DENSECORE_ISA::libcxx {

inline constexpr int64_t kInsertionLimit = 24;
inline constexpr int64_t kNintherThreshold = 128;
inline constexpr int64_t kSelectionLimit = 7;
inline constexpr int kMoveLimit = 8;  // moves after which an insertion sort of an almost sorted range is given up

template <class T>
inline void exchange(T& a, T& b) {
  const T t = a;
  a = b;
  b = t;
}

// Sorts three elements; returns the number of exchanges.
template <class T, class Less>
int sort3(T* x, T* y, T* z, const Less& less) {
  if (!less(*y, *x)) {
    if (!less(*z, *y)) return 0;
    exchange(*y, *z);
    if (!less(*y, *x)) return 1;
    exchange(*x, *y);
    return 2;
  }
  if (less(*z, *y)) {
    exchange(*x, *z);
    return 1;
  }
  exchange(*x, *y);
  if (!less(*z, *y)) return 1;
  exchange(*y, *z);
  return 2;
}

// Moves `last` down into the sorted range that ends before it.
template <class T, class Less>
void sink(T* first, T* last, const Less& less) {
  for (T* p = last; p != first && less(*p, *(p - 1)); --p) exchange(*p, *(p - 1));
}

// Up to five elements, by sort3 and insertion; false for more.
template <class T, class Less>
bool sort_few(T* first, T* last, const Less& less) {
  const int64_t n = last - first;
  if (n > 5) return false;
  if (n == 2 && less(first[1], first[0])) exchange(first[0], first[1]);
  if (n >= 3) sort3(first, first + 1, first + 2, less);
  for (int64_t i = 3; i < n; ++i) sink(first, first + i, less);
  return true;
}

template <class T, class Less>
void insertion_sort(T* first, T* last, const Less& less) {
  for (T* p = first + 1; p < last; ++p) sink(first, p, less);
}

// True if it sorted the range within kMoveLimit moved elements.
template <class T, class Less>
bool insertion_sort_if_quick(T* first, T* last, const Less& less) {
  if (sort_few(first, last, less)) return true;
  sort3(first, first + 1, first + 2, less);
  int moved = 0;
  for (T* p = first + 3; p != last; ++p) {
    if (!less(*p, *(p - 1))) continue;
    sink(first, p, less);
    if (++moved == kMoveLimit) return p + 1 == last;
  }
  return true;
}

// ---- heaps ---------------------------------------------------------------------------------------------------------------------

// The larger child of `parent`, or `size` if there is none.
template <class T, class Less>
int64_t larger_child(const T* heap, int64_t size, int64_t parent, const Less& less) {
  const int64_t child = 2 * parent + 1;
  if (child >= size) return size;
  return child + 1 < size && less(heap[child], heap[child + 1]) ? child + 1 : child;
}

template <class T, class Less>
void sift_down(T* heap, int64_t size, int64_t at, const Less& less) {
  const T moved = heap[at];
  for (int64_t child = larger_child(heap, size, at, less); child < size && !less(heap[child], moved);
       child = larger_child(heap, size, at, less)) {
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

template <class T, class Less>
void sift_up(T* heap, int64_t at, const Less& less) {
  const T moved = heap[at];
  while (at > 0 && less(heap[(at - 1) / 2], moved)) {
    heap[at] = heap[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap[at] = moved;
}

// Floyd: the hole left by the largest goes down to a leaf, the last element fills it and rises.
template <class T, class Less>
void pop_heap(T* heap, int64_t size, const Less& less) {
  const T largest = heap[0];
  int64_t hole = 0;
  for (int64_t child = larger_child(heap, size, hole, less); child < size; child = larger_child(heap, size, hole, less)) {
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = heap[size - 1];
  heap[size - 1] = largest;
  if (hole != size - 1) sift_up(heap, hole, less);
}

// The smallest `middle - first` elements of [first, last), sorted, in front.
template <class T, class Less>
void partial_sort(T* first, T* middle, T* last, const Less& less) {
  const int64_t size = middle - first;
  if (size == 0) return;
  for (int64_t parent = (size - 2) / 2; size > 1 && parent >= 0; --parent) sift_down(first, size, parent, less);
  for (T* p = middle; p != last; ++p) {
    if (!less(*p, *first)) continue;
    exchange(*p, *first);
    sift_down(first, size, 0, less);
  }
  for (int64_t n = size; n > 1; --n) pop_heap(first, n, less);
}

// ---- introsort -----------------------------------------------------------------------------------------------------------------

// Puts the pivot *first in its place, smaller elements before it. Returns the place and whether nothing had to be exchanged.
template <class T, class Less>
std::pair<T*, bool> partition_equals_right(T* first, T* last, const Less& less) {
  T* const begin = first;
  const T pivot = *first;
  do ++first;
  while (less(*first, pivot));
  if (begin == first - 1) {
    while (first < last && !less(*--last, pivot)) {
    }
  } else {
    do --last;
    while (!less(*last, pivot));
  }
  const bool untouched = first >= last;
  while (first < last) {
    exchange(*first, *last);
    do ++first;
    while (less(*first, pivot));
    do --last;
    while (!less(*last, pivot));
  }
  T* const place = first - 1;
  *begin = *place;
  *place = pivot;
  return {place, untouched};
}

// For a pivot that equals the element before the range: equal elements go before it and are done. Returns the rest's start.
template <class T, class Less>
T* partition_equals_left(T* first, T* last, const Less& less) {
  T* const begin = first;
  T* const end = last;
  const T pivot = *first;
  if (less(pivot, *(end - 1))) {
    do ++first;
    while (!less(pivot, *first));
  } else {
    do ++first;
    while (first < last && !less(pivot, *first));
  }
  if (first < last) {
    do --last;
    while (less(pivot, *last));
  }
  while (first < last) {
    exchange(*first, *last);
    do ++first;
    while (!less(pivot, *first));
    do --last;
    while (less(pivot, *last));
  }
  *begin = *(first - 1);
  *(first - 1) = pivot;
  return first;
}

// Leaves the pivot at *first.
template <class T, class Less>
void choose_pivot(T* first, T* last, const Less& less) {
  const int64_t n = last - first, half = n / 2;
  if (n <= kNintherThreshold) {
    sort3(first + half, first, last - 1, less);
    return;
  }
  sort3(first, first + half, last - 1, less);
  sort3(first + 1, first + half - 1, last - 2, less);
  sort3(first + 2, first + half + 1, last - 3, less);
  sort3(first + half - 1, first + half, first + half + 1, less);
  exchange(*first, *(first + half));
}

template <class T, class Less>
void introsort(T* first, T* last, int64_t depth, bool leftmost, const Less& less) {
  while (true) {
    if (sort_few(first, last, less)) return;
    if (last - first < kInsertionLimit) return insertion_sort(first, last, less);
    if (depth-- == 0) return partial_sort(first, last, last, less);
    choose_pivot(first, last, less);
    if (!leftmost && !less(*(first - 1), *first)) {
      first = partition_equals_left(first, last, less);
      continue;
    }
    const auto [pivot, untouched] = partition_equals_right(first, last, less);
    if (untouched) {
      const bool left_done = insertion_sort_if_quick(first, pivot, less);
      if (insertion_sort_if_quick(pivot + 1, last, less)) {
        if (left_done) return;
        last = pivot;
        continue;
      }
      if (left_done) {
        first = pivot + 1;
        continue;
      }
    }
    introsort(first, pivot, depth, leftmost, less);
    leftmost = false;
    first = pivot + 1;
  }
}

template <class T, class Less>
void sort(T* first, T* last, const Less& less) {
  int64_t log2 = 0;
  for (int64_t n = last - first; n > 1; n >>= 1) ++log2;
  introsort(first, last, 2 * log2, true, less);
}

// ---- quickselect ---------------------------------------------------------------------------------------------------------------

template <class T, class Less>
void selection_sort(T* first, T* last, const Less& less) {
  for (; last - first > 1; ++first) {
    T* smallest = first;
    for (T* p = first + 1; p != last; ++p) {
      if (less(*p, *smallest)) smallest = p;
    }
    exchange(*first, *smallest);
  }
}

template <class T, class Less>
bool is_sorted(const T* first, const T* last, const Less& less) {
  for (const T* p = first + 1; p < last; ++p) {
    if (less(*p, *(p - 1))) return false;
  }
  return true;
}

// All elements are at least *first: those equal to it go to the front. Returns their end, or nullptr if all are equal.
template <class T, class Less>
T* gather_equals(T* first, T* last, const Less& less) {
  T* i = first + 1;
  T* j = last - 1;
  if (!less(*first, *j)) {
    while (true) {
      if (i == j) return nullptr;
      if (less(*first, *i)) break;
      ++i;
    }
    exchange(*i, *j);
    ++i;
  }
  if (i == j) return nullptr;
  while (true) {
    while (!less(*first, *i)) ++i;
    do --j;
    while (less(*first, *j));
    if (i >= j) return i;
    exchange(*i, *j);
    ++i;
  }
}

template <class T, class Less>
void nth_element(T* first, T* nth, T* last, const Less& less) {
  while (nth != last) {
    const int64_t n = last - first;
    if (n <= 3) {
      sort_few(first, last, less);
      return;
    }
    if (n <= kSelectionLimit) return selection_sort(first, last, less);
    T* median = first + n / 2;
    T* i = first;
    T* j = last - 1;
    int64_t exchanges = sort3(first, median, j, less);
    if (!less(*i, *median)) {  // *first equals the median: look from above for a smaller element to stop the search going down
      do --j;
      while (i != j && !less(*j, *median));
      if (i == j) {
        first = gather_equals(first, last, less);
        if (first == nullptr || nth < first) return;
        continue;
      }
      exchange(*i, *j);
      ++exchanges;
    }
    ++i;
    while (i < j) {
      while (less(*i, *median)) ++i;
      do --j;
      while (!less(*j, *median));
      if (i >= j) break;
      exchange(*i, *j);
      ++exchanges;
      if (median == i) median = j;
      ++i;
    }
    if (i != median && less(*median, *i)) {
      exchange(*i, *median);
      ++exchanges;
    }
    if (nth == i) return;
    if (exchanges == 0 && (nth < i ? is_sorted(first, i, less) : is_sorted(i, last, less))) return;
    if (nth < i) {
      last = i;
    } else {
      first = i + 1;
    }
  }
}

}  // namespace densecore::DENSECORE_ISA::libcxx
