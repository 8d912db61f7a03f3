// Exponentials of one lane vector, as the reference's vector code computes them.
//
//   exp_u10    SLEEF expf, 1.0 ulp (Sleef_expf4_u10advsimd): aten::exp, softmax, sigmoid, silu, tanh's relatives
//   exp_u20    Vectorized<float>::exp_u20 on NEON (torch >= 2.6, Arm optimized routines): flash attention's forward pass, erf
//   expm1_u10, exp2_u10, exp_double_float, exp_of_double_float: SLEEF expm1f, exp2f, and the cores of tanhf/sinhf and powf
#pragma once

#include "../lanes.h"
#include "double_float.h"
#include "groups.h"

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

// x * 2^q by two factors, so that q may leave the exponent range: a subnormal result is rounded once, in the second product. AVX-512 has
// it in one instruction, equal where |q| <= 254; for larger q no caller uses the result.
template <class V>
DENSECORE_INLINE V scale_pow2(V x, V q) {
#if defined(__AVX512F__)
  // maskz: see lanes.h
  if constexpr (lane_count<V> == 16) return bit_cast<V>(_mm512_maskz_scalef_ps(0xffff, bit_cast<__m512>(x), bit_cast<__m512>(q)));
#endif
  const mask_type<V> whole = to_int(q);
  const mask_type<V> half = whole >> 1;
  return x * pow2(half) * pow2(whole - half);
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
  u = scale_pow2(u, n);  // where n is out of range the result is replaced below, or is NaN
  u = select(x < -104.0f, V{}, u);
  return select(x > 100.0f, splat<V>(__builtin_inff()), u);
}

template <class V>
DENSECORE_INLINE V exp2_u10(V x) {
  const V n = round_even(x);
  const V s = x - n;
  V u = splat<V>(0.1535920892e-3f);
  u = fma(u, s, splat<V>(0.1339262701e-2f));
  u = fma(u, s, splat<V>(0.9618384764e-2f));
  u = fma(u, s, splat<V>(0.5550347269e-1f));
  u = fma(u, s, splat<V>(0.2402264476e+0f));
  u = fma(u, s, splat<V>(0.6931471825e+0f));
  u = scale_pow2(fma(u, s, splat<V>(1.0f)), n);
  u = select(x >= 128.0f, splat<V>(__builtin_inff()), u);
  return select(x < -150.0f, V{}, u);
}

// x - n ln 2 for an integer n.
template <class V>
DENSECORE_INLINE DoubleFloat<V> subtract_ln2(DoubleFloat<V> x, V n) {
  return add(add(x, n * -exp_constants::kLn2Hi), n * -exp_constants::kLn2Lo);
}

// exp of a double-float as a double-float (SLEEF expk2f): tanh, sinh, cosh, expm1, erfc.
template <class V>
DENSECORE_INLINE DoubleFloat<V> exp_double_float(DoubleFloat<V> x) {
  const V n = round_even(total(x) * exp_constants::kInvLn2);
  const DoubleFloat<V> s = subtract_ln2(x, n);
  V u = splat<V>(0.1980960224e-3f);
  u = fma(u, s.hi, splat<V>(0.1394256484e-2f));
  u = fma(u, s.hi, splat<V>(0.8333456703e-2f));
  u = fma(u, s.hi, splat<V>(0.4166637361e-1f));
  DoubleFloat<V> t = add(mul(s, u), splat<V>(0.166666659414234244790680580464e+0f));
  t = add(mul(s, t), splat<V>(0.5f));
  t = add(s, mul(square(s), t));
  t = add_ordered(splat<V>(1.0f), t);
  const mask_type<V> vanishes = x.hi < -104.0f;
  return {select(vanishes, V{}, scale_pow2(t.hi, n)), select(vanishes, V{}, scale_pow2(t.lo, n))};
}

// x * 2^q for any q (SLEEF vldexp): four equal factors and a remaining one, each clamped to the exponent range. Below 2^-128 the result
// is rounded twice.
template <class V>
DENSECORE_INLINE V scale_pow2_wide(V x, mask_type<V> q) {
  mask_type<V> m = q >> 31;
  m = (((m + q) >> 6) - m) << 4;
  const mask_type<V> rest = q - (m << 2);
  m += 127;
  m = m > 0 ? m : 0 * m;
  m = m > 255 ? 0 * m + 255 : m;
  const V u = from_bits(m << 23);
  return x * u * u * u * u * pow2(rest);
}

// 1 + s + s^2 / 2 + ..., the core of exp_of_double_float.
template <class V>
DENSECORE_INLINE V exp_of_rest(DoubleFloat<V> s) {
  V u = splat<V>(0.00136324646882712841033936f);
  u = fma(u, s.hi, splat<V>(0.00836596917361021041870117f));
  u = fma(u, s.hi, splat<V>(0.0416710823774337768554688f));
  u = fma(u, s.hi, splat<V>(0.166665524244308471679688f));
  u = fma(u, s.hi, splat<V>(0.499999850988388061523438f));
  return total(add_ordered(splat<V>(1.0f), add_ordered(s, mul(square(s), u))));
}

// exp of a double-float as a float (SLEEF expkf): pow.
template <class V>
DENSECORE_INLINE V exp_of_double_float(DoubleFloat<V> x) {
  const V n = round_even(total(x) * exp_constants::kInvLn2);
  const mask_type<V> ordinary = abs(n) <= 128.0f;
  if (!any(~ordinary)) [[likely]]
    return scale_pow2(exp_of_rest(normalize(subtract_ln2(x, n))), n);
  // An n beyond the int range saturates, and what the series makes of the rest then is part of the reference's result.
  const mask_type<V> whole = to_int_saturate(n);
  const V y = scale_pow2_wide(exp_of_rest(normalize(subtract_ln2(x, to_float(whole)))), whole);
  return select(x.hi < -104.0f, V{}, y);
}

template <class V>
DENSECORE_INLINE V expm1_u10(V x) {
  V y = total(add(exp_double_float(DoubleFloat<V>{x, V{}}), splat<V>(-1.0f)));
  y = select(x > 88.72283172607421875f, splat<V>(__builtin_inff()), y);
  y = select(x < -16.635532333438687426013570f, splat<V>(-1.0f), y);
  return select(x == 0.0f, x, y);
}

// To the nearest integer, ties away from zero (FRINTA), for |x| < 2^23. The addend is the float below 0.5: a larger one would
// carry 0.49999997 to 1.
template <bool kNonpositive, class V>
DENSECORE_INLINE mask_type<V> round_away_to_int(V x) {
  constexpr float kBelowHalf = 0x1.fffffep-2f;
  return to_int(kNonpositive ? x - kBelowHalf : x + copysign(splat<V>(kBelowHalf), x));
}

// exp_u20 where |x| <= 87.3; other lanes are meaningless.
template <bool kNonpositive, class V>
DENSECORE_INLINE V exp_u20_core(V x) {
  using namespace exp_constants;
  const mask_type<V> n = round_away_to_int<kNonpositive>(x * kInvLn2);
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

// Depends on the group of 4 lanes (groups.h): one lane with |x| > 87.3 sends its whole group to exp_u10. exp_u20<true> is the same
// function for arguments that are known to be at most 0, or NaN, in fewer instructions.
template <bool kNonpositive = false, class V>
DENSECORE_INLINE V exp_u20(V x) {
  constexpr float kLimit = 0x1.5d5e2ap+6f;
  const mask_type<V> special = kNonpositive ? x < -kLimit : abs(x) > kLimit;
  const V fast = exp_u20_core<kNonpositive>(x);
  if (!any(special)) [[likely]]
    return fast;
  return select(spread_in_groups(special), exp_u10(x), fast);
}

}  // namespace densecore::DENSECORE_ISA
