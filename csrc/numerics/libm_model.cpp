#include "libm_model.h"

#include <cmath>

#include "double_double.h"

namespace densecore::libm_model {
namespace {

using namespace double_double;

// `exact` is asked where values within 2^-48 of y round to different floats.
template <class Exact>
float round_once(double y, const Exact& exact) {
  if (std::isnan(y)) return static_cast<float>(y);
  const float below = static_cast<float>(y * (1 - 0x1p-48)), above = static_cast<float>(y * (1 + 0x1p-48));
  return below == above ? static_cast<float>(y) : round_to_float(exact());
}

// Odd functions are computed for |x|.
template <class F>
Wide odd(double x, const F& f) {
  const Wide y = f(Wide{std::fabs(x), 0});
  return x < 0 ? -y : y;
}

constexpr Wide kOne = {1, 0};

}  // namespace

float exp2f(float x) {
  return round_once(std::exp2(static_cast<double>(x)), [&] { return exp(kLn2 * Wide{x, 0}); });
}
float expm1f(float x) {
  return round_once(std::expm1(static_cast<double>(x)), [&] { return expm1(Wide{x, 0}); });
}
float log1pf(float x) {
  return round_once(std::log1p(static_cast<double>(x)), [&] { return log1p(Wide{x, 0}); });
}
float sinhf(float x) {
  // (exp x - exp -x) / 2 with e = expm1 x
  return round_once(std::sinh(static_cast<double>(x)), [&] {
    return odd(x, [](Wide a) {
      const Wide e = expm1(a);
      return scale(e + e / (kOne + e), -1);
    });
  });
}
float coshf(float x) {
  return round_once(std::cosh(static_cast<double>(x)), [&] {
    const Wide e = exp(Wide{std::fabs(x), 0});
    return scale(e + kOne / e, -1);
  });
}
float tanhf(float x) {
  return round_once(std::tanh(static_cast<double>(x)), [&] {
    return odd(x, [](Wide a) {
      const Wide e = expm1(scale(a, 1));
      return e / (e + Wide{2, 0});
    });
  });
}
float asinhf(float x) {
  return round_once(std::asinh(static_cast<double>(x)), [&] {
    return odd(x, [](Wide a) {
      const Wide square = a * a;
      return log1p(a + square / (kOne + sqrt(kOne + square)));
    });
  });
}
float acoshf(float x) {
  return round_once(std::acosh(static_cast<double>(x)), [&] {
    const Wide t = Wide{x, 0} - kOne;
    return log1p(t + sqrt(scale(t, 1) + t * t));
  });
}
float atanhf(float x) {
  return round_once(std::atanh(static_cast<double>(x)), [&] {
    return odd(x, [](Wide a) { return scale(log1p(scale(a, 1) / (kOne - a)), -1); });
  });
}
float erff(float x) {
  return round_once(std::erf(static_cast<double>(x)), [&] { return odd(x, erf); });
}
float sinf(float x) {
  return round_once(std::sin(static_cast<double>(x)), [&] { return sin(x); });
}
float cosf(float x) {
  return round_once(std::cos(static_cast<double>(x)), [&] { return cos(x); });
}
float pow_to_float(double x, double y) {
  return round_once(std::pow(x, y), [&] {
    const Wide magnitude = exp(Wide{y, 0} * log(Wide{std::fabs(x), 0}));
    // A negative x has a result only for an integer y.
    const Wide result = x < 0 && std::fmod(y, 2) != 0 ? -magnitude : magnitude;
    return Wide{result.hi, 0};
  });
}
float powf(float x, float y) {
  return round_once(std::pow(static_cast<double>(x), static_cast<double>(y)), [&] {
    const Wide magnitude = exp(Wide{y, 0} * log(Wide{std::fabs(x), 0}));
    return x < 0 && std::fmod(y, 2.0f) != 0 ? -magnitude : magnitude;
  });
}
float logf_exact(float x) { return round_to_float(log(Wide{x, 0})); }

}  // namespace densecore::libm_model
