// The model of Apple's scalar libm, which the reference's scalar loops call (loop tails, strided inputs, rescaling factors).
//
// expf follows the algorithm published for libsystem_m; the other functions return the correctly rounded result. What is known of
// each function, and the doubt, is in torch_densecore/profiles/libm/apple.json. A result that used one carries its name.
#pragma once

#include "../lanes.h"
#include "../libm_model.h"
#include "exp2_table.h"

namespace densecore::DENSECORE_ISA::libm {

using namespace libm_model;

// In binary64: 128/ln 2 * x = n + r, the result is 2^(n/128) * (1 + r * (C1 + C2 * r)). 2^(n/128) is a table entry with the integer
// part of n/128 added to its exponent.
DENSECORE_INLINE float expf(float x) {
  constexpr double kScale = 0x1.71547652b82fep+7;    // 128 / ln 2
  constexpr double kShift = 0x1.8p+52;               // adding it rounds to an integer
  constexpr double kC1 = 0x1.62e4453e10daep-8, kC2 = 0x1.ebfbdff30d656p-17;
  if (!(__builtin_fabsf(x) < 128.0f)) return x < 0 ? 0.0f : x * 0x1.fffffep+127f;
  const double wide = x;
  const double shifted = fma(kScale, wide, kShift);
  const double r = fma(kScale, wide, -(shifted - kShift));
  const uint64_t n = bit_cast<uint64_t>(shifted);
  const double power = bit_cast<double>(kExp2Table128[n & 127] + ((n >> 7) << 52));
  return static_cast<float>(fma(fma(kC2, r, kC1) * r, power, power));
}

// The binary64 logarithm of a positive finite float, within 2^-50 of the result: x = m * 2^e, log m = 2 atanh((m - 1)/(m + 1)).
DENSECORE_INLINE double log_wide(float x) {
  const uint64_t word = bit_cast<uint64_t>(static_cast<double>(x));
  // Offsets the exponent so that m lies in [sqrt(1/2), sqrt(2)).
  const int64_t shifted = static_cast<int64_t>(word - 0x3fe6a09e667f3bcd);
  const int64_t e = shifted >> 52;
  const double m = bit_cast<double>(word - (static_cast<uint64_t>(e) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 2.0 / 23;
  p = fma(p, z, 2.0 / 21);
  p = fma(p, z, 2.0 / 19);
  p = fma(p, z, 2.0 / 17);
  p = fma(p, z, 2.0 / 15);
  p = fma(p, z, 2.0 / 13);
  p = fma(p, z, 2.0 / 11);
  p = fma(p, z, 2.0 / 9);
  p = fma(p, z, 2.0 / 7);
  p = fma(p, z, 2.0 / 5);
  p = fma(p, z, 2.0 / 3);
  const double log_m = fma(s * z, p, 2.0 * s);
  constexpr double kLn2Hi = 0x1.62e42fefa3800p-1, kLn2Lo = 0x1.ef35793c76730p-45;
  const double wide_e = static_cast<double>(e);
  return fma(wide_e, kLn2Hi, fma(wide_e, kLn2Lo, log_m));
}

// Whether every value within 2^-48 of y (relative) rounds to one float, so that the binary64 function's error cannot matter.
DENSECORE_INLINE bool rounds_safely(double y) {
  return static_cast<float>(y * (1 - 0x1p-48)) == static_cast<float>(y * (1 + 0x1p-48));
}

DENSECORE_INLINE float logf(float x) {
  if (!(x > 0) || x == __builtin_inff()) return x == 0 ? -__builtin_inff() : (x > 0 ? x : __builtin_nanf(""));
  const double y = log_wide(x);
  return rounds_safely(y) ? static_cast<float>(y) : logf_exact(x);
}

}  // namespace densecore::DENSECORE_ISA::libm
