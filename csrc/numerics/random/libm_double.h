// Correctly rounded double-precision log, log1p, exp, sin, cos and tan: the model of Apple's libm for the distributions that
// compute in double. Evaluated in double-double with an error near 2^-100, so a wrong rounding has a chance near 2^-47 per call.
// Private to csrc/numerics/random.
#pragma once

#include <cmath>
#include <limits>

#include "../lanes.h"

namespace densecore::DENSECORE_ISA::libm {

// The sum of two doubles, |lo| <= ulp(hi) / 2.
struct Pair {
  double hi;
  double lo;
};

// Knuth's and Dekker's error-free transformations (Muller et al., Handbook of Floating-Point Arithmetic, ch. 4 and 14).
inline Pair two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
inline Pair fast_two_sum(double a, double b) {
  const double s = a + b;
  return {s, b - (s - a)};
}
inline Pair two_product(double a, double b) {
  const double p = a * b;
  return {p, fma(a, b, -p)};
}
inline Pair add(Pair a, Pair b) {
  const Pair s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
  const Pair u = fast_two_sum(s.hi, s.lo + t.hi);
  return fast_two_sum(u.hi, u.lo + t.lo);
}
inline Pair multiply(Pair a, Pair b) {
  const Pair p = two_product(a.hi, b.hi);
  return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Pair negate(Pair a) { return {-a.hi, -a.lo}; }
inline Pair scale(Pair a, double power_of_two) { return {a.hi * power_of_two, a.lo * power_of_two}; }
inline Pair divide(Pair a, Pair b) {
  const double q = a.hi / b.hi;
  const Pair rest = add(a, negate(multiply({q, 0}, b)));
  const double q2 = rest.hi / b.hi;
  const Pair rest2 = add(rest, negate(multiply({q2, 0}, b)));
  return add(fast_two_sum(q, q2), {rest2.hi / b.hi, 0});
}

inline constexpr Pair kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
inline constexpr double kLn2Third = 0x1.7b57a079a1934p-111;
// pi / 2 to 161 bits: multiples up to 4 can be subtracted from a double next to them.
inline constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};

// 1/1, 1/2, ... as pairs.
template <int N>
struct Reciprocals {
  Pair of[N];
  Reciprocals() {
    for (int i = 1; i < N; ++i) of[i] = divide({1, 0}, {static_cast<double>(i), 0});
  }
};
inline const Pair& reciprocal(int i) {
  static const Reciprocals<64> table;
  return table.of[i];
}

// log of a positive m: with m = 2^e * f, f in [sqrt(1/2), sqrt(2)), it is e ln 2 + 2 atanh((f - 1) / (f + 1)).
inline Pair log_pair(Pair m) {
  int e;
  const double f = std::frexp(m.hi, &e);
  if (f < 0.70710678118654752) --e;
  const Pair reduced = {std::ldexp(m.hi, -e), std::ldexp(m.lo, -e)};
  const Pair s = divide(add(reduced, {-1, 0}), add(reduced, {1, 0}));
  const Pair s2 = multiply(s, s);
  Pair series = {0, 0};
  for (int k = 41; k >= 1; k -= 2) series = add(multiply(series, s2), reciprocal(k));  // 0.1716^42 < 2^-106
  const double n = e;
  return add(multiply({n, 0}, kLn2), scale(multiply(s, series), 2));
}
inline double log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  return log_pair({x, 0}).hi;
}
inline double log1p(double x) {
  if (x == 0) return x;
  if (x == -1) return -std::numeric_limits<double>::infinity();
  if (!(x > -1)) return std::numeric_limits<double>::quiet_NaN();
  return log_pair(two_sum(1, x)).hi;
}

// sum of x^k / k! over k of one parity, up to the power that |x| <= pi / 4 makes smaller than 2^-106: Horner by 1 / (k (k - 1)).
inline Pair alternating_series(Pair x2, int last) {
  Pair sum = {1, 0};
  for (int k = last; k >= 2; k -= 2) {
    const Pair step = multiply(multiply(x2, reciprocal(k)), reciprocal(k - 1));
    sum = add({1, 0}, negate(multiply(step, sum)));
  }
  return sum;
}

struct SinCos {
  Pair sin;
  Pair cos;
};
// For |x| up to 2 pi and a little.
inline SinCos sincos_pair(double x) {
  const double n = std::nearbyint(x * 0x1.45f306dc9c883p-1);
  Pair r = two_product(-n, kHalfPi[0]);
  r = add(add({x, 0}, r), add(two_product(-n, kHalfPi[1]), {-n * kHalfPi[2], 0}));
  const Pair r2 = multiply(r, r);
  const Pair sine = multiply(r, alternating_series(r2, 29)), cosine = alternating_series(r2, 30);
  switch (static_cast<int>(n) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, negate(sine)};
    case 2: return {negate(sine), negate(cosine)};
    default: return {negate(cosine), sine};
  }
}
inline double tan(double x) {
  if (x == 0) return x;
  const SinCos t = sincos_pair(x);
  return divide(t.sin, t.cos).hi;
}

// Overflow and results below the normal range are rounded twice at most by ldexp; the distributions cast them to float anyway.
inline double exp(double x) {
  if (x != x) return x;
  if (x > 710) return std::numeric_limits<double>::infinity();
  if (x < -746) return 0;
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  Pair r = add({x, 0}, two_product(-n, kLn2.hi));
  r = add(r, add(two_product(-n, kLn2.lo), {-n * kLn2Third, 0}));
  Pair sum = {1, 0};
  for (int k = 26; k >= 1; --k) sum = add({1, 0}, multiply(multiply(r, reciprocal(k)), sum));  // 0.35^27 / 27! < 2^-110
  return std::ldexp(sum.hi, static_cast<int>(n));
}

}  // namespace densecore::DENSECORE_ISA::libm
