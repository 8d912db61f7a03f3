// Exponentials of one lane vector, as the reference's vector code computes them.
//
//   exp_u10    SLEEF expf, 1.0 ulp (Sleef_expf4_u10advsimd): aten::exp, sigmoid, silu, tanh's relatives
//   exp_u20    Vectorized<float>::exp_u20 on NEON (torch >= 2.6, Arm optimized routines): softmax, flash attention, erf
//   expm1_u10, exp2_u10, exp_double_float, exp_of_double_float: SLEEF expm1f, exp2f, and the cores of tanhf/sinhf and powf
#pragma once

#include "../lanes.h"
#include "double_float.h"

namespace densecore::DENSECORE_ISA {

namespace exp_constants {
inline constexpr float kInvLn2 = 0x1.715476p+0f;
inline constexpr float kLn2Hi = 0x1.62e4p-1f;
inline constexpr float kLn2Lo = 0x1.7f7d1cp-20f;
}  // namespace exp_constants

// 2^q for q in [-126, 127].
template <class I>
DENSECORE_INLINE auto pow2(I q) {
  return from_bits((q + 127) << 23);
}

// x * 2^q by two factors, so that q may leave the exponent range: a subnormal result is rounded once, in the second product.
template <class V>
DENSECORE_INLINE V scale_pow2(V x, mask_type<V> q) {
  const mask_type<V> half = q >> 1;
  return x * pow2(half) * pow2(q - half);
}

template <class V>
DENSECORE_INLINE V exp_u10(V x) {
  using namespace exp_constants;
  const V n = round_even(x * kInvLn2);
  V s = fnma(n, splat<V>(kLn2Hi), x);
  s = fnma(n, splat<V>(kLn2Lo), s);
  V u = splat<V>(0.000198527617612853646278381f);
  u = fma(u, s, splat<V>(0.00139304355252534151077271f));
  u = fma(u, s, splat<V>(0.00833336077630519866943359f));
  u = fma(u, s, splat<V>(0.0416664853692054748535156f));
  u = fma(u, s, splat<V>(0.166666671633720397949219f));
  u = fma(u, s, splat<V>(0.5f));
  u = 1.0f + fma(s * s, u, s);
  // Where n does not fit an int the result is replaced below, or is NaN whatever the factors are.
  u = scale_pow2(u, to_int(n));
  u = select(x < -104.0f, V{}, u);
  return select(x > 100.0f, splat<V>(__builtin_inff()), u);
}

// To the nearest integer, ties away from zero (FRINTA), for |x| < 2^23. The addend is the float below 0.5: a larger one would
// carry 0.49999997 to 1.
template <class V>
DENSECORE_INLINE mask_type<V> round_away_to_int(V x) {
  return to_int(x + copysign(splat<V>(0x1.fffffep-2f), x));
}

// exp_u20 where |x| <= 87.3; other lanes are meaningless.
template <class V>
DENSECORE_INLINE V exp_u20_core(V x) {
  using namespace exp_constants;
  const mask_type<V> n = round_away_to_int(x * kInvLn2);
  V r = fnma(to_float(n), splat<V>(kLn2Hi), x);
  r = fnma(to_float(n), splat<V>(kLn2Lo), r);
  const V power = pow2(n);
  const V r2 = r * r;
  const V p = fma(r, splat<V>(0x1.0e4020p-7f), splat<V>(0x1.573e2ep-5f));
  V q = fma(r, splat<V>(0x1.555e66p-3f), splat<V>(0x1.fffdb6p-2f));
  q = fma(p, r2, q);
  const V poly = fma(q, r2, r * 0x1.ffffecp-1f);
  return fma(poly, power, power);
}

// All ones in every lane of a group of 4 lanes in which any lane of the mask is set.
template <class I>
DENSECORE_INLINE I spread_in_groups(I mask) {
  if constexpr (lane_count<I> == 4) {
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1);
  } else if constexpr (lane_count<I> == 8) {
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2, 5, 4, 7, 6);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1, 6, 7, 4, 5);
  } else {
    static_assert(lane_count<I> == 16);
    mask |= __builtin_shufflevector(mask, mask, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return mask | __builtin_shufflevector(mask, mask, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  }
}

// Lanes are grouped by 4 from lane 0, as the reference's vectors: one lane with |x| > 87.3 sends its whole group to exp_u10,
// which changes the bits of its neighbours. The caller loads a register where a group of the reference begins, and fills lanes
// that the reference does not have with zeros.
template <class V>
DENSECORE_INLINE V exp_u20(V x) {
  const mask_type<V> special = abs(x) > 0x1.5d5e2ap+6f;
  const V fast = exp_u20_core(x);
  if (!any(special)) [[likely]]
    return fast;
  return select(spread_in_groups(special), exp_u10(x), fast);
}

}  // namespace densecore::DENSECORE_ISA
