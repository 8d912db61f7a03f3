#include "libm_exact.h"

#include <cmath>
#include <cstdlib>

namespace densecore::exact {
namespace {

// The unevaluated sum hi + lo with |lo| <= ulp(hi) / 2.
struct Wide {
  double hi, lo;
};

Wide fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
Wide two_sum(double a, double b) {
  const double s = a + b;
  const double v = s - a;
  return {s, (a - (s - v)) + (b - v)};
}
Wide two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}
Wide operator-(Wide a) { return {-a.hi, -a.lo}; }
Wide operator+(Wide a, Wide b) {
  const Wide s = two_sum(a.hi, b.hi);
  const Wide t = two_sum(a.lo, b.lo);
  const Wide u = fast_two_sum(s.hi, s.lo + t.hi);
  return fast_two_sum(u.hi, u.lo + t.lo);
}
Wide operator*(Wide a, Wide b) {
  const Wide p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
Wide operator/(Wide a, Wide b) {
  const double q0 = a.hi / b.hi;
  const Wide r0 = a + -(b * Wide{q0, 0});
  const double q1 = r0.hi / b.hi;
  const Wide r1 = r0 + -(b * Wide{q1, 0});
  const Wide q = fast_two_sum(q0, q1);
  return q + Wide{r1.hi / b.hi, 0};
}
Wide scale(Wide a, int power) { return {std::ldexp(a.hi, power), std::ldexp(a.lo, power)}; }

constexpr Wide kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// exp(x) for |x| < 700: x = k ln 2 + 2^-9 r, a Taylor series in r, squared 9 times.
Wide exp(Wide x) {
  const double k = std::rint(x.hi / kLn2.hi);
  const Wide r = scale(x + -(kLn2 * Wide{k, 0}), -9);
  Wide sum = {0, 0};
  // expm1 by Horner: r (1 + r/2 (1 + r/3 (...)))
  for (int i = 12; i >= 1; --i) sum = (Wide{1, 0} + sum) * r / Wide{static_cast<double>(i), 0};
  // (1 + s)^2 - 1 = 2 s + s^2 keeps the bits of a small s.
  for (int i = 0; i < 9; ++i) sum = scale(sum, 1) + sum * sum;
  return scale(Wide{1, 0} + sum, static_cast<int>(k));
}

// One Newton step doubles the bits of the C library's logarithm: y + (x exp(-y) - 1).
Wide log(Wide x) {
  const double y = std::log(x.hi);
  return Wide{y, 0} + (x * exp(Wide{-y, 0}) + Wide{-1, 0});
}

// hi + lo to the nearest float. hi alone decides unless it is the middle between two floats; then lo says the side. A lo that is
// nothing but rounding noise means that hi is exact.
float round_to_float(Wide a) {
  if (a.lo == 0 || std::fabs(a.lo) < std::fabs(a.hi) * 0x1p-95) return static_cast<float>(a.hi);
  const double nudged = std::nextafter(a.hi, (a.lo > 0) ? INFINITY : -INFINITY);
  const float below = static_cast<float>(a.hi);
  return static_cast<float>(nudged) == below ? below : static_cast<float>(nudged);
}

}  // namespace

float logf(float x) { return round_to_float(log(Wide{x, 0})); }

}  // namespace densecore::exact
