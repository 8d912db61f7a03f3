// Logarithms of one lane vector, as the reference's vector code computes them: SLEEF's 1.0 ulp functions on double-float.
#pragma once

#include "../lanes.h"
#include "double_float.h"

namespace densecore::DENSECORE_ISA {

// x = m * 2^e with m in [0.75, 1.5); a subnormal x is scaled by 2^64 first.
template <class V>
struct LogParts {
  V m;
  V e;
  V x;  // the scaled argument, whose class (zero, negative, infinite, NaN) decides the special results
};

template <class V>
DENSECORE_INLINE LogParts<V> split_for_log(V x) {
  const mask_type<V> subnormal = x < 0x1p-126f;
  x = select(subnormal, x * 0x1p+64f, x);
  const mask_type<V> exponent = ((bits(x * (1.0f / 0.75f)) >> 23) & 0xff) - 127;
  const V m = from_bits(bits(x) - (exponent << 23));
  return {m, to_float(exponent - (subnormal & 64)), x};
}

// +inf for +inf, NaN below zero and for NaN, -inf for zeros.
template <class V>
DENSECORE_INLINE V log_special(V x, V result) {
  const V inf = splat<V>(__builtin_inff());
  result = select(x == inf, inf, result);
  result = select(x >= 0.0f, result, splat<V>(__builtin_nanf("")));
  return select(x == 0.0f, -inf, result);
}

// (m - 1) / (m + 1), the argument of the atanh series.
template <class V>
DENSECORE_INLINE DoubleFloat<V> log_ratio(V m) {
  return divide(add(splat<V>(-1.0f), m), add(splat<V>(1.0f), m));
}

template <class V>
DENSECORE_INLINE V log_u10(V x) {
  const LogParts<V> parts = split_for_log(x);
  DoubleFloat<V> s = mul(double_float<V>(0.69314718246459960938f, -1.904654323148236017e-09f), parts.e);
  const DoubleFloat<V> r = log_ratio(parts.m);
  const V r2 = r.hi * r.hi;
  V t = splat<V>(0.3027294874e+0f);
  t = fma(t, r2, splat<V>(0.3996108174e+0f));
  t = fma(t, r2, splat<V>(0.6666694880e+0f));
  s = add_ordered(s, scale(r, splat<V>(2.0f)));
  s = add_ordered(s, r2 * r.hi * t);
  return log_special(parts.x, total(s));
}

}  // namespace densecore::DENSECORE_ISA
