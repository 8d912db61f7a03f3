// ATen's native/cpu/PowKernel.cpp.
#include "pow.h"

#include "../math/libm.h"
#include "../math/pow.h"
#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {

void pow_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile, [](auto x, auto y) { return pow_u10(x, y); }, [](float x, float y) { return libm::powf(x, y); });
}

void pow_scalar_f32(const Loop2d& loop, const Profile& profile, double exponent) {
  const auto run = [&](const auto& op) { vectorized_loop<float, 1>(loop, profile, op); };
  if (exponent == 0.5) return run([](auto x) { return sqrt(x); });
  if (exponent == 2) return run([](auto x) { return x * x; });
  if (exponent == 3) return run([](auto x) { return x * x * x; });
  if (exponent == -1) return run([](auto x) { return 1.0f / x; });
  if (exponent == -0.5) {
    // The scalar lambda divides in binary64.
    return vectorized_loop<float, 1>(
        loop, profile, [](auto x) { return 1.0f / sqrt(x); }, [](float x) { return static_cast<float>(1.0 / sqrt(x)); });
  }
  if (exponent == -2) {
    return vectorized_loop<float, 1>(
        loop, profile, [](auto x) { return 1.0f / (x * x); }, [](float x) { return static_cast<float>(1.0 / (x * x)); });
  }
  const float rounded = static_cast<float>(exponent);
  vectorized_loop<float, 1>(
      loop, profile, [=](auto x) { return pow_u10(x, splat<decltype(x)>(rounded)); },
      [=](float x) { return libm::pow_to_float(x, exponent); });
}

}  // namespace densecore::DENSECORE_ISA
