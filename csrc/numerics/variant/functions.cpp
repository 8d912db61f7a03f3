// Exponentials by the profile's choice.
#include "../math/exp.h"
#include "../math/libm.h"
#include "../math/log.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

using namespace densecore::DENSECORE_ISA;

// glibc's expf (since 2.27) where it uses FMA instructions: in binary64, 32/ln 2 * x = n + r, the result is 2^(n/32) times a cubic in r.
float glibc_expf(float x) {
  constexpr double kScale = 0x1.71547652b82fep+5;
  constexpr double kShift = 0x1.8p+52;  // adding it rounds to an integer
  constexpr double kC3 = 0x1.c6af84b912394p-20, kC2 = 0x1.ebfce50fac4f3p-13, kC1 = 0x1.62e42ff0c52d6p-6;
  if (x > 0x1.62e42ep6f) return x * 0x1.fffffep+127f;
  if (x < -0x1.9fe368p6f) return 0.0f;
  if (x != x) return x;
  const double wide = x;
  const double shifted = fma(kScale, wide, kShift);
  const double r = fma(kScale, wide, -(shifted - kShift));
  const uint64_t n = bit_cast<uint64_t>(shifted);
  const double power = bit_cast<double>(kExp2Table128[4 * (n & 31)] + ((n >> 5) << 52));
  const double linear = fma(kC1, r, 1.0);
  return static_cast<float>(fma(fma(kC3, r, kC2), r * r, linear) * power);
}

// Vectorized<float>::exp_u20 of AVX2 and AVX-512: argument clamped, polynomial of degree 5, the power applied in two factors.
float exp_u20_x86(float x) {
  constexpr float kLow = -87.33654475f, kHigh = 88.72283935546875f;
  const float clamped = x > kHigh ? kHigh : (x < kLow ? kLow : x);
  const float n = __builtin_floorf(fma(clamped, 1.44269504088896341f, 0.5f));
  const float r = fma(-n, 0.693147180559945309f, clamped);
  float u = fma(r, 0.00828929059f, 0.0418978221f);
  u = fma(r, u, 0.166676521f);
  u = fma(r, u, 0.499991506f);
  u = fma(r, u, 0.999999701f);
  u = fma(r, u, 1.0f);
  if (x < kLow) return 0.0f;
  return x != x ? x : u * pow2(I32<4>{static_cast<int32_t>(n) - 1})[0] * 2.0f;
}

}  // namespace

float exp_scalar(const Profile& profile, float x) { return profile.libm == Libm::kGlibc ? glibc_expf(x) : libm::expf(x); }

float exp_vector(const Profile& profile, float x) {
  switch (profile.exp) {
    case Exponential::kSleefU10: return exp_u10(F32<4>{x})[0];
    case Exponential::kU20: return exp_u20_x86(x);
    case Exponential::kLibm: return exp_scalar(profile, x);
  }
  return x;
}

float log_vector(float x) { return log_u10(F32<4>{x})[0]; }

}  // namespace densecore::variant
