// Double-double arithmetic and functions, about 100 bits: where the libm model needs more than binary64 to round correctly. Written
// for clarity, not for speed. Included by files that are compiled once (libm_model.cpp, libm_double.cpp) alone.
#pragma once

#include <cmath>
#include <cstdint>

namespace densecore::double_double {

// The unevaluated sum hi + lo with |lo| <= ulp(hi) / 2.
struct Wide {
  double hi, lo;
};

inline Wide fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
inline Wide two_sum(double a, double b) {
  const double s = a + b;
  const double v = s - a;
  return {s, (a - (s - v)) + (b - v)};
}
inline Wide two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

inline Wide operator-(Wide a) { return {-a.hi, -a.lo}; }
inline Wide operator+(Wide a, Wide b) {
  const Wide s = two_sum(a.hi, b.hi);
  const Wide t = two_sum(a.lo, b.lo);
  const Wide u = fast_two_sum(s.hi, s.lo + t.hi);
  return fast_two_sum(u.hi, u.lo + t.lo);
}
inline Wide operator-(Wide a, Wide b) { return a + -b; }
inline Wide operator*(Wide a, Wide b) {
  const Wide p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Wide operator/(Wide a, Wide b) {
  const double q0 = a.hi / b.hi;
  const Wide r0 = a - b * Wide{q0, 0};
  const double q1 = r0.hi / b.hi;
  const Wide r1 = r0 - b * Wide{q1, 0};
  return fast_two_sum(q0, q1) + Wide{r1.hi / b.hi, 0};
}
inline Wide scale(Wide a, int power) { return {std::ldexp(a.hi, power), std::ldexp(a.lo, power)}; }
inline Wide sqrt(Wide a) {
  if (a.hi == 0) return a;
  const double root = std::sqrt(a.hi);
  const Wide error = a - two_product(root, root);
  return fast_two_sum(root, error.hi / (2 * root));
}

inline constexpr Wide kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr Wide kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
inline constexpr Wide kTwoOverSqrtPi = {0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56};

// exp(x) - 1 for |x| <= 0.5: a Taylor series in 2^-9 x, then (1 + s)^2 - 1 = 2 s + s^2 nine times, which keeps the bits of a small s.
inline Wide expm1_small(Wide x) {
  const Wide r = scale(x, -9);
  Wide sum = {0, 0};
  for (int i = 12; i >= 1; --i) sum = (Wide{1, 0} + sum) * r / Wide{static_cast<double>(i), 0};
  for (int i = 0; i < 9; ++i) sum = scale(sum, 1) + sum * sum;
  return sum;
}
// For results in the range of binary64.
inline Wide exp(Wide x) {
  const double k = std::rint(x.hi / kLn2.hi);
  return scale(Wide{1, 0} + expm1_small(x - kLn2 * Wide{k, 0}), static_cast<int>(k));
}
inline Wide expm1(Wide x) { return std::fabs(x.hi) <= 0.5 ? expm1_small(x) : exp(x) - Wide{1, 0}; }

// One Newton step doubles the bits of the C library's logarithm y: log x = y + (x exp(-y) - 1). log(x 2^k) = log x + k ln 2.
inline Wide log1p_small(Wide x) {
  const double y = std::log1p(x.hi);
  const Wide e = expm1(Wide{-y, 0});
  return Wide{y, 0} + (x + e + x * e);
}
inline Wide log(Wide x) {
  int k;
  const double m = std::frexp(x.hi, &k);
  if (m < 0.75) k -= 1;
  return log1p_small(scale(x, -k) - Wide{1, 0}) + kLn2 * Wide{static_cast<double>(k), 0};
}
inline Wide log1p(Wide x) { return std::fabs(x.hi) <= 0.5 ? log1p_small(x) : log(x + Wide{1, 0}); }

// 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ... (2n+1)): no cancellation. For 0 <= x < 6.
inline Wide erf(Wide x) {
  const Wide square = x * x;
  Wide term = x, sum = x;
  for (int n = 1; term.hi > sum.hi * 0x1p-110; ++n) {
    term = term * scale(square, 1) / Wide{2.0 * n + 1, 0};
    sum = sum + term;
  }
  return kTwoOverSqrtPi * exp(-square) * sum;
}

// 2/pi in pieces of 24 bits: piece i has the weight 2^(-24 (i + 1)).
inline constexpr int32_t kTwoOverPi[] = {0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C,
                                         0x439041, 0xFE5163, 0xABDEBB, 0xC561B7, 0x246E3A, 0x424DD2, 0xE00649};

// A quarter-turn count and the angle left.
struct Quarters {
  int count;
  Wide angle;
};
// The product of x and each piece of 2/pi is exact; what is a multiple of 8 quarter turns is dropped before it can cost bits.
inline Quarters reduce(float x) {
  Wide turns = {0, 0};
  for (int i = 0; i < 14; ++i) {
    const double product = std::ldexp(static_cast<double>(x) * kTwoOverPi[i], -24 * (i + 1));
    turns = turns + Wide{std::fmod(product, 8), 0};
  }
  const double whole = std::rint(turns.hi);
  return {static_cast<int>(whole) & 3, (turns - Wide{whole, 0}) * kHalfPi};
}
// The alternating Taylor series from `first` on, whose term number is 1 for sin and 0 for cos. |x| <= pi/4.
inline Wide circular_series(Wide x, Wide first, int number) {
  const Wide square = x * x;
  Wide term = first, sum = first;
  for (; number < 40; number += 2) {
    term = -(term * square) / Wide{(number + 1.0) * (number + 2.0), 0};
    sum = sum + term;
  }
  return sum;
}
inline Wide circular(Wide x, int quarter) {
  const Wide y = quarter & 1 ? circular_series(x, Wide{1, 0}, 0) : circular_series(x, x, 1);
  return quarter & 2 ? -y : y;
}
inline Wide sin(float x) {
  const Quarters q = reduce(x);
  return circular(q.angle, q.count);
}
inline Wide cos(float x) {
  const Quarters q = reduce(x);
  return circular(q.angle, q.count + 1);
}

// To the nearest float. hi decides unless it is the middle between two floats, where lo says the side; a lo that is nothing but
// rounding noise means that hi is exact.
inline float round_to_float(Wide a) {
  const float rounded = static_cast<float>(a.hi);
  if (std::fabs(a.lo) < std::fabs(a.hi) * 0x1p-95) return rounded;
  return static_cast<float>(std::nextafter(a.hi, a.lo > 0 ? HUGE_VAL : -HUGE_VAL));
}

}  // namespace densecore::double_double
