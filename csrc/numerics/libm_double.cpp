#include "libm_double.h"

#include <cmath>
#include <limits>

#include "double_double.h"

namespace densecore::libm_model {
namespace {

using double_double::kLn2;
using double_double::two_product;
using double_double::two_sum;
using double_double::Wide;

constexpr Wide kOne = {1, 0};
// Third words of ln 2 and pi/2 (each word rounded to nearest): the arguments below may lie next to a multiple of them.
constexpr double kLn2Third = 0x1.7b57a079a1934p-111;
constexpr double kHalfPiThird = -0x1.f1976b7ed8fbcp-110;

// 1/1, 1/2, ...
const Wide& reciprocal(int i) {
  struct Table {
    Wide of[48];
    Table() {
      for (int k = 1; k < 48; ++k) of[k] = kOne / Wide{static_cast<double>(k), 0};
    }
  };
  static const Table table;
  return table.of[i];
}

// x - n c for an integer n, with c in three words.
Wide subtract_multiple(double x, double n, Wide c, double third) {
  return Wide{x, 0} + two_product(-n, c.hi) + (two_product(-n, c.lo) + Wide{-n * third, 0});
}

// log m = e ln 2 + 2 atanh((f - 1) / (f + 1)) with m = 2^e f and f in [sqrt(1/2), sqrt(2)).
Wide log_wide(Wide m) {
  int e;
  if (std::frexp(m.hi, &e) < 0.70710678118654752) --e;
  const Wide f = double_double::scale(m, -e);
  const Wide s = (f - kOne) / (f + kOne), square = s * s;
  Wide series = {0, 0};
  for (int k = 41; k >= 1; k -= 2) series = series * square + reciprocal(k);  // |s| < 0.1716, 0.1716^42 < 2^-106
  return kLn2 * Wide{static_cast<double>(e), 0} + double_double::scale(s * series, 1);
}

// 1 - x^2/((k - 1) k) (1 - ...) up to k = last: the series of cos x, and of sin x / x.
Wide alternating_series(Wide square, int last) {
  Wide sum = kOne;
  for (int k = last; k >= 2; k -= 2) sum = kOne - square * reciprocal(k) * reciprocal(k - 1) * sum;
  return sum;
}

struct WideSinCos {
  Wide sin;
  Wide cos;
};
WideSinCos sincos_wide(double x) {
  const double n = std::nearbyint(x * 0x1.45f306dc9c883p-1);
  const Wide r = subtract_multiple(x, n, double_double::kHalfPi, kHalfPiThird), square = r * r;
  const Wide sine = r * alternating_series(square, 29), cosine = alternating_series(square, 30);  // (pi/4)^30 / 30! < 2^-110
  switch (static_cast<int>(n) & 3) {
    case 0: return {sine, cosine};
    case 1: return {cosine, -sine};
    case 2: return {-sine, -cosine};
    default: return {-cosine, sine};
  }
}

}  // namespace

double log(double x) {
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (!(x > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x > std::numeric_limits<double>::max()) return x;
  return log_wide({x, 0}).hi;
}

double log1p(double x) {
  if (x == 0) return x;
  if (x == -1) return -std::numeric_limits<double>::infinity();
  if (!(x > -1)) return std::numeric_limits<double>::quiet_NaN();
  return log_wide(two_sum(1, x)).hi;
}

// A result below the normal range is rounded twice; the distributions that come here round it to float anyway.
double exp(double x) {
  if (x != x) return x;
  if (x > 710) return std::numeric_limits<double>::infinity();
  if (x < -746) return 0;
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const Wide r = subtract_multiple(x, n, kLn2, kLn2Third);
  Wide sum = kOne;
  for (int k = 26; k >= 1; --k) sum = kOne + r * reciprocal(k) * sum;  // 0.35^27 / 27! < 2^-110
  return std::ldexp(sum.hi, static_cast<int>(n));
}

SinCos sincos(double x) {
  const WideSinCos result = sincos_wide(x);
  return {result.sin.hi, result.cos.hi};
}

double tan(double x) {
  if (x == 0) return x;
  const WideSinCos result = sincos_wide(x);
  return (result.sin / result.cos).hi;
}

}  // namespace densecore::libm_model
