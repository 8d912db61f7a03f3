// asin, acos and atan of one lane vector: SLEEF's 1.0 ulp functions.
#pragma once

#include "../lanes.h"
#include "double_float.h"
#include "trigonometric.h"

namespace densecore::DENSECORE_ISA {

namespace inverse_trigonometric {

using trigonometric::kPiHi;
using trigonometric::kPiLo;
using trigonometric::select_pair;

// sqrt of a float as a double-float: one Newton step on the rounded root.
template <class V>
DENSECORE_INLINE DoubleFloat<V> sqrt_double_float(V d) {
  const V t = sqrt(d);
  return scale(mul(add(d, mul(t, t)), reciprocal(DoubleFloat<V>{t, V{}})), splat<V>(0.5f));
}

// asin and acos share the series: for |d| >= 0.5 it runs on sqrt((1 - |d|) / 2).
template <class V>
struct ArcSeries {
  mask_type<V> small;
  DoubleFloat<V> x;
  V u;
};
template <class V>
DENSECORE_INLINE ArcSeries<V> arc_series(V d) {
  const V magnitude = abs(d);
  const mask_type<V> small = magnitude < 0.5f;
  const V x2 = select(small, d * d, (1.0f - magnitude) * 0.5f);
  DoubleFloat<V> x = select_pair(small, DoubleFloat<V>{magnitude, V{}}, sqrt_double_float(x2));
  x = select_pair(magnitude == 1.0f, DoubleFloat<V>{}, x);
  V u = splat<V>(0.4197454825e-1f);
  u = fma(u, x2, splat<V>(0.2424046025e-1f));
  u = fma(u, x2, splat<V>(0.4547423869e-1f));
  u = fma(u, x2, splat<V>(0.7495029271e-1f));
  u = fma(u, x2, splat<V>(0.1666677296e+0f));
  return {small, x, u * (x2 * x.hi)};
}

}  // namespace inverse_trigonometric

template <class V>
DENSECORE_INLINE V asin_u10(V d) {
  using namespace inverse_trigonometric;
  const auto [small, x, u] = arc_series(d);
  const DoubleFloat<V> rest = sub_ordered(double_float<V>(kPiHi / 4, kPiLo / 4), x);
  const V high = rest.hi - u;
  const V low = ((rest.hi - high) - u) + rest.lo;
  const V y = select(small, u + x.hi, (high + low) * 2.0f);
  return multiply_sign(y, d);
}

template <class V>
DENSECORE_INLINE V acos_u10(V d) {
  using namespace inverse_trigonometric;
  const auto [small, x, u] = arc_series(d);
  const DoubleFloat<V> direct = sub_ordered(double_float<V>(kPiHi / 2, kPiLo / 2),
                                            add_ordered(multiply_sign(x.hi, d), multiply_sign(u, d)));
  DoubleFloat<V> y = select_pair(small, direct, scale(add_ordered(x, u), splat<V>(2.0f)));
  y = select_pair(~small & (d < 0.0f), sub_ordered(double_float<V>(kPiHi, kPiLo), y), y);
  return total(y);
}

template <class V>
DENSECORE_INLINE V atan_u10(V d) {
  using namespace inverse_trigonometric;
  const V magnitude = abs(d), one = splat<V>(1.0f);
  const mask_type<V> inverted = magnitude > 1.0f;  // atan(d) = pi/2 + atan(-1/d)
  const DoubleFloat<V> s = divide(DoubleFloat<V>{select(inverted, -one, magnitude), select(inverted, splat<V>(-0.0f), V{})},
                                  DoubleFloat<V>{select(inverted, magnitude, one), V{}});
  DoubleFloat<V> t = normalize(square(s));
  V u = splat<V>(-0.00176397908944636583328247f);
  u = fma(u, t.hi, splat<V>(0.0107900900766253471374512f));
  u = fma(u, t.hi, splat<V>(-0.0309564601629972457885742f));
  u = fma(u, t.hi, splat<V>(0.0577365085482597351074219f));
  u = fma(u, t.hi, splat<V>(-0.0838950723409652709960938f));
  u = fma(u, t.hi, splat<V>(0.109463557600975036621094f));
  u = fma(u, t.hi, splat<V>(-0.142626821994781494140625f));
  u = fma(u, t.hi, splat<V>(0.199983194470405578613281f));
  t = mul(t, add_ordered(splat<V>(-0.333332866430282592773438f), u * t.hi));
  t = mul(s, add_ordered(one, t));
  const V quarter = select(inverted, one, V{});
  t = add_ordered(mul(double_float<V>(1.5707963705062866211f, -4.3711388286737928865e-08f), quarter), t);
  const V y = select(magnitude == __builtin_inff(), splat<V>(1.5707963267948966f), total(t));
  return multiply_sign(y, d);
}

}  // namespace densecore::DENSECORE_ISA
