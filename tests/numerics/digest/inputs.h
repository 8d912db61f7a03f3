// The inputs of the digest: made of integers by exact arithmetic, so that every host has the same. structured.py makes the same in
// Python, which is how the hash file is compared with the reference.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace digest {

// Element i of stream `seed` (splitmix64).
inline uint64_t word(uint64_t seed, uint64_t i) {
  uint64_t z = (seed << 32) + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// kUnit: [0, 1). kModerate: [-4, 4). kNearOne: [0.5, 1.5), for products. kMixed: of sixteen values one special, one random bit pattern,
// two of any magnitude 2^-32 to 2^33, three of [-1, 1), the rest moderate.
enum class Kind { kUnit, kModerate, kNearOne, kMixed };

// Signed zeros, subnormals, ends of the range, powers of two with neighbours, infinities, NaN.
template <class T>
const std::vector<T>& specials();

template <>
inline const std::vector<float>& specials<float>() {
  static const std::vector<float> all = [] {
    const uint32_t words[] = {0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001, 0x33800000, 0x34000000,
                              0x3effffff, 0x3f000000, 0x3f000001, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fc00000, 0x3fffffff,
                              0x40000000, 0x40000001, 0x40400000, 0x41200000, 0x42b17218, 0x42c80000, 0x4affffff, 0x4b000000,
                              0x4b000001, 0x4effffff, 0x4f000000, 0x5f000000, 0x7f7fffff, 0x7f800000, 0x7fc00000};
    std::vector<float> values;
    for (const uint32_t sign : {0u, 0x80000000u}) {
      for (const uint32_t w : words) {
        const uint32_t bits = w | sign;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        values.push_back(value);
      }
    }
    return values;
  }();
  return all;
}
template <>
inline const std::vector<double>& specials<double>() {
  static const std::vector<double> all = [] {
    const uint64_t words[] = {0x0000000000000000, 0x0000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x3ca0000000000000,
                              0x3fefffffffffffff, 0x3ff0000000000000, 0x3ff0000000000001, 0x4000000000000000, 0x4008000000000000,
                              0x41dfffffffc00000, 0x41e0000000000000, 0x433fffffffffffff, 0x43e0000000000000, 0x7fefffffffffffff,
                              0x7ff0000000000000, 0x7ff8000000000000};
    std::vector<double> values;
    for (const uint64_t sign : {uint64_t{0}, uint64_t{1} << 63}) {
      for (const uint64_t w : words) {
        const uint64_t bits = w | sign;
        double value;
        std::memcpy(&value, &bits, sizeof(value));
        values.push_back(value);
      }
    }
    return values;
  }();
  return all;
}

template <class T>
T unit(uint64_t w) {
  if constexpr (sizeof(T) == 4) return static_cast<T>(w >> 40) * 0x1p-24f;
  return static_cast<T>(w >> 11) * 0x1p-53;
}

template <class T>
T value(uint64_t w, Kind kind) {
  const T x = unit<T>(w);
  if (kind == Kind::kUnit) return x;
  if (kind == Kind::kNearOne) return x + T(0.5);  // exact: x has no bit below 2^-24 (2^-53), and the sum is below 2
  const T moderate = (x - T(0.5)) * 8;
  if (kind == Kind::kModerate) return moderate;
  const unsigned choice = w & 15, detail = (w >> 4) & 63;
  switch (choice) {
    case 0: return specials<T>()[detail % specials<T>().size()];
    case 1: {
      const std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> bits = w * 0x9e3779b97f4a7c15u >> (64 - 8 * sizeof(T));
      T any;
      std::memcpy(&any, &bits, sizeof(T));
      return any;
    }
    case 2:
    case 3: return std::ldexp(moderate, static_cast<int>(detail) - 32);
    case 4:
    case 5:
    case 6: return moderate / 4;
    default: return moderate;
  }
}

template <class T>
std::vector<T> values(uint64_t seed, int64_t count, Kind kind) {
  std::vector<T> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = value<T>(word(seed, i), kind);
  return out;
}
inline std::vector<float> floats(uint64_t seed, int64_t count, Kind kind = Kind::kModerate) { return values<float>(seed, count, kind); }

// Integers of [0, limit).
template <class T = int64_t>
std::vector<T> integers(uint64_t seed, int64_t count, uint64_t limit) {
  std::vector<T> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(word(seed, i) % limit);
  return out;
}

}  // namespace digest
