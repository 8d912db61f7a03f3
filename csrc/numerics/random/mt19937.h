// The mt19937 block generator (Matsumoto & Nishimura 1998) on lanes. Private to csrc/numerics/random.
#pragma once

#include <algorithm>

#include "../lanes.h"
#include "random.h"

namespace densecore::DENSECORE_ISA {

template <int N>
using U32 = typename VectorType<uint32_t, N>::type;
template <int N>
using U64 = typename VectorType<uint64_t, N>::type;

inline constexpr int kMtShift = 397;
inline constexpr int kMtWrap = kMtWords - kMtShift;

template <class V>
DENSECORE_INLINE V twist(V current, V following, V distant) {
  const V mixed = (current & 0x80000000u) | (following & 0x7fffffffu);
  return distant ^ (mixed >> 1) ^ ((V{} - (following & 1u)) & 0x9908b0dfu);
}

template <class V>
DENSECORE_INLINE V temper(V y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

// words[first, last) from words `distance` away. A vector reads only words that are still old (ahead of it) or already new
// (behind it by kMtWrap >= its width), so any width gives the scalar loop's values.
template <class V>
DENSECORE_INLINE int twist_range(uint32_t* words, int first, int last, int distance) {
  int j = first;
  for (; j + lane_count<V> <= last; j += lane_count<V>) {
    store(words + j, twist(load<V>(words + j), load<V>(words + j + 1), load<V>(words + j + distance)));
  }
  return j;
}

inline void next_block(RandomState& state) {
  uint32_t* w = state.words;
  const auto range = [w](int first, int last, int distance) {
    for (int j = twist_range<U32<kWidth>>(w, first, last, distance); j < last; ++j) {
      w[j] = twist(w[j], w[j + 1], w[j + distance]);
    }
  };
  range(0, kMtWrap, kMtShift);
  range(kMtWrap, kMtWords - 1, -kMtWrap);
  w[kMtWords - 1] = twist(w[kMtWords - 1], w[0], w[kMtWords - 1 - kMtWrap]);
  state.left = kMtWords + 1;  // one more than after at::mt19937's refill, whose draw has been counted already
  state.next = 0;
}

// The next n words of the stream, as bytes in memory order.
inline void draw_words(RandomState& state, void* out, int64_t n) {
  using V = U32<kWidth>;
  auto* bytes = static_cast<char*>(out);
  while (n > 0) {
    if (state.left <= 1) next_block(state);
    const int take = static_cast<int>(std::min<int64_t>(n, state.left - 1));
    const uint32_t* words = state.words + state.next;
    int i = 0;
    for (; i + kWidth <= take; i += kWidth, bytes += sizeof(V)) {
      const V v = temper(load<V>(words + i));
      std::memcpy(bytes, &v, sizeof(V));
    }
    for (; i < take; ++i, bytes += sizeof(uint32_t)) {
      const uint32_t word = temper(words[i]);
      std::memcpy(bytes, &word, sizeof(word));
    }
    state.left -= take;
    state.next += take;
    n -= take;
  }
}

// Values are made from the stream in blocks of this many draws, which stay in the L1 cache.
inline constexpr int kDraws = 1024;

// random64(): the first word is the high half. Only the low 53 bits are used by the real-valued distributions.
inline constexpr uint64_t kMask53 = (uint64_t{1} << 53) - 1;
inline constexpr uint32_t kMask24 = (uint32_t{1} << 24) - 1;

// k < 2^53 of each pair of words, as integers.
inline void draw_53(RandomState& state, uint64_t* out, int64_t n) {
  using V = U64<kWidth / 2>;
  draw_words(state, out, 2 * n);
  int64_t i = 0;
  for (; i + kWidth / 2 <= n; i += kWidth / 2) {
    const V v = load<V>(out + i);
    store(out + i, ((v << 32) | (v >> 32)) & kMask53);  // little-endian: the first word is the low half in memory
  }
  for (; i < n; ++i) out[i] = ((out[i] << 32) | (out[i] >> 32)) & kMask53;
}

// An integer below 2^53 as a double, by the exponents 2^52 and 2^84 (SSE2 and AVX2 have no such conversion).
template <class U>
DENSECORE_INLINE typename VectorType<double, lane_count<U>>::type to_double(U k) {
  using D = typename VectorType<double, lane_count<U>>::type;
  const D high = bit_cast<D>((k >> 32) | 0x4530000000000000u);
  const D low = bit_cast<D>((k & 0xffffffffu) | 0x4330000000000000u);
  return (high - 0x1.00000001p84) + low;
}

// at::uniform_real_distribution<double>(0, 1), one draw.
inline double draw_unit_double(RandomState& state) {
  uint32_t words[2];
  draw_words(state, words, 2);
  return static_cast<double>((uint64_t{words[0]} << 32 | words[1]) & kMask53) * 0x1p-53;
}

}  // namespace densecore::DENSECORE_ISA
