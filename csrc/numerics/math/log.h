// Logarithms of one lane vector, as the reference's vector code computes them: SLEEF's 1.0 ulp functions on double-float.
#pragma once

#include "../lanes.h"
#include "double_float.h"
#include "exp.h"

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

// e ln 2 + 2 atanh(r).
template <class V>
DENSECORE_INLINE V log_sum(V e, DoubleFloat<V> r) {
  DoubleFloat<V> s = mul(double_float<V>(0.69314718246459960938f, -1.904654323148236017e-09f), e);
  const V r2 = r.hi * r.hi;
  V t = splat<V>(0.3027294874e+0f);
  t = fma(t, r2, splat<V>(0.3996108174e+0f));
  t = fma(t, r2, splat<V>(0.6666694880e+0f));
  s = add_ordered(s, scale(r, splat<V>(2.0f)));
  s = add_ordered(s, r2 * r.hi * t);
  return total(s);
}

template <class V>
DENSECORE_INLINE V log_u10(V x) {
  const LogParts<V> parts = split_for_log(x);
  return log_special(parts.x, log_sum(parts.e, log_ratio(parts.m)));
}

template <class V>
DENSECORE_INLINE V log10_u10(V x) {
  const LogParts<V> parts = split_for_log(x);
  const DoubleFloat<V> r = log_ratio(parts.m);
  const V r2 = r.hi * r.hi;
  V t = splat<V>(0.1314289868e+0f);
  t = fma(t, r2, splat<V>(0.1735493541e+0f));
  t = fma(t, r2, splat<V>(0.2895309627e+0f));
  DoubleFloat<V> s = mul(double_float<V>(0.30103001f, -1.432098889e-08f), parts.e);
  s = add_ordered(s, mul(r, double_float<V>(0.868588984f, -2.170757285e-08f)));
  s = add_ordered(s, r2 * r.hi * t);
  return log_special(parts.x, total(s));
}

template <class V>
DENSECORE_INLINE V log2_u10(V x) {
  const LogParts<V> parts = split_for_log(x);
  const DoubleFloat<V> r = log_ratio(parts.m);
  const V r2 = r.hi * r.hi;
  V t = splat<V>(0.4374550283e+0f);
  t = fma(t, r2, splat<V>(0.5764790177e+0f));
  t = fma(t, r2, splat<V>(0.9618012905120f));
  DoubleFloat<V> s = add(parts.e, mul(r, double_float<V>(2.8853900432586669922f, 3.2734474483568488616e-08f)));
  s = add(s, r2 * r.hi * t);
  return log_special(parts.x, total(s));
}

template <class V>
DENSECORE_INLINE V log1p_u10(V x) {
  const V one = splat<V>(1.0f);
  V sum = x + one;
  const mask_type<V> subnormal = sum < 0x1p-126f;
  sum = select(subnormal, sum * 0x1p+64f, sum);
  const mask_type<V> exponent = ((bits(sum * (1.0f / 0.75f)) >> 23) & 0xff) - 127;
  const V power = from_bits(bits(one) - (exponent << 23));
  const V m = fma(x, power, power - one);  // (1 + x) 2^-e - 1
  const DoubleFloat<V> r = divide(DoubleFloat<V>{m, V{}}, add_ordered(splat<V>(2.0f), m));
  V y = log_sum(to_float(exponent - (subnormal & 64)), r);
  const mask_type<V> large = x > 0x1.2ced32p+126f;  // 1 + x is x there, and the scaled sum would overflow
  if (any(large | is_nan(x))) y = select(large | is_nan(x), log_u10(x), y);
  y = select(x < -1.0f, splat<V>(__builtin_nanf("")), y);
  y = select(x == -1.0f, splat<V>(-__builtin_inff()), y);
  return select(x == 0.0f, x, y);
}

// log of a positive x as a double-float (SLEEF logkf): pow.
template <class V>
DENSECORE_INLINE DoubleFloat<V> log_double_float(V x) {
  const LogParts<V> parts = split_for_log(x);
  const DoubleFloat<V> r = log_ratio(parts.m);
  const DoubleFloat<V> r2 = square(r);
  V t = splat<V>(0.240320354700088500976562f);
  t = fma(t, r2.hi, splat<V>(0.285112679004669189453125f));
  t = fma(t, r2.hi, splat<V>(0.400007992982864379882812f));
  const DoubleFloat<V> c = double_float<V>(0.66666662693023681640625f, 3.69183861259614332084311e-09f);
  DoubleFloat<V> s = mul(double_float<V>(0.69314718246459960938f, -1.904654323148236017e-09f), parts.e);
  s = add_ordered(s, scale(r, splat<V>(2.0f)));
  return add_ordered(s, mul(mul(r2, r), add(mul(r2, t), c)));
}

// log of a positive double-float of normal size (SLEEF logk2f): atanh.
template <class V>
DENSECORE_INLINE DoubleFloat<V> log_of_double_float(DoubleFloat<V> x) {
  V scaled = x.hi * (1.0f / 0.75f);
  const mask_type<V> tiny = scaled < 5.421010862427522e-20f;
  scaled = select(tiny, scaled * 0x1p+64f, scaled);
  const mask_type<V> e = ((bits(scaled) >> 23) & 0xff) - 127 - (tiny & 64);
  const DoubleFloat<V> m = scale(x, pow2(-e));
  const DoubleFloat<V> r = divide(add(m, splat<V>(-1.0f)), add(m, splat<V>(1.0f)));
  const DoubleFloat<V> r2 = square(r);
  V t = splat<V>(0.2392828464508056640625f);
  t = fma(t, r2.hi, splat<V>(0.28518211841583251953125f));
  t = fma(t, r2.hi, splat<V>(0.400005877017974853515625f));
  t = fma(t, r2.hi, splat<V>(0.666666686534881591796875f));
  DoubleFloat<V> s = mul(double_float<V>(0.69314718246459960938f, -1.904654323148236017e-09f), to_float(e));
  s = add_ordered(s, scale(r, splat<V>(2.0f)));
  return add_ordered(s, mul(mul(r2, r), t));
}

}  // namespace densecore::DENSECORE_ISA
