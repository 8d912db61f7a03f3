// bernoulli_: a uniform number below p. Compared as integers: k * 2^-53 < p just when k < ceil(p * 2^53), and p * 2^53 is exact.
#include <cmath>

#include "mt19937.h"

namespace densecore::DENSECORE_ISA {
namespace {

// draws[i] < limits(i) for i < count, as elements of T.
template <class T, class U, class Limits>
DENSECORE_INLINE void compare(const U* draws, const Limits& limits, T* y, int count) {
  for (int i = 0; i < count; ++i) y[i] = static_cast<T>(draws[i] < limits(i));
}

template <class U, class Limits>
DENSECORE_INLINE void compare_as(Element element, const U* draws, const Limits& limits, void* y, int64_t offset, int count) {
  switch (element) {
    case Element::kF32: return compare(draws, limits, static_cast<float*>(y) + offset, count);
    case Element::kF64: return compare(draws, limits, static_cast<double*>(y) + offset, count);
    case Element::kI8: return compare(draws, limits, static_cast<int8_t*>(y) + offset, count);
    case Element::kI16: return compare(draws, limits, static_cast<int16_t*>(y) + offset, count);
    case Element::kI32: return compare(draws, limits, static_cast<int32_t*>(y) + offset, count);
    case Element::kI64: return compare(draws, limits, static_cast<int64_t*>(y) + offset, count);
  }
}

uint64_t limit_53(double p) { return static_cast<uint64_t>(std::ceil(p * 0x1p53)); }
uint32_t limit_24(float p) { return static_cast<uint32_t>(std::ceil(p * 0x1p24f)); }

// Four vectors of 64-bit comparisons narrow to two vectors of floats.
void bernoulli_block_f32(const uint64_t* draws, uint64_t limit, float* y, int count) {
  constexpr int N = kWidth / 2;
  using S = I64<N>;
  const S bound = splat<S>(static_cast<int64_t>(limit));  // both below 2^54: a signed comparison serves
  int i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const S low = bit_cast<S>(load<U64<N>>(draws + i)) < bound, high = bit_cast<S>(load<U64<N>>(draws + i + N)) < bound;
    I32<kWidth> mask;
    const I32<N> narrow_low = __builtin_convertvector(low, I32<N>), narrow_high = __builtin_convertvector(high, I32<N>);
    std::memcpy(&mask, &narrow_low, sizeof(narrow_low));
    std::memcpy(reinterpret_cast<char*>(&mask) + sizeof(narrow_low), &narrow_high, sizeof(narrow_high));
    store(y + i, from_bits(mask & 0x3f800000));
  }
  for (; i < count; ++i) y[i] = draws[i] < limit ? 1.0f : 0.0f;
}

}  // namespace

void bernoulli(RandomState& state, double p, Element element, void* y, int64_t n) {
  const uint64_t limit = limit_53(p);
  uint64_t draws[kDraws];
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_53(state, draws, count);
    if (element == Element::kF32) {
      bernoulli_block_f32(draws, limit, static_cast<float*>(y) + done, count);
    } else {
      compare_as(element, draws, [limit](int) { return limit; }, y, done, count);
    }
  }
}

void bernoulli_by_f32(RandomState& state, const float* p, Element element, void* y, int64_t n) {
  uint32_t draws[kDraws];
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_words(state, draws, count);
    for (int i = 0; i < count; ++i) draws[i] &= kMask24;
    compare_as(element, draws, [p, done](int i) { return limit_24(p[done + i]); }, y, done, count);
  }
}

void bernoulli_by_f64(RandomState& state, const double* p, Element element, void* y, int64_t n) {
  uint64_t draws[kDraws];
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_53(state, draws, count);
    compare_as(element, draws, [p, done](int i) { return limit_53(p[done + i]); }, y, done, count);
  }
}

}  // namespace densecore::DENSECORE_ISA
