// sin, cos and tan of one lane vector: SLEEF's 1.0 ulp functions. Arguments below 125 are reduced by pi in three parts, larger ones
// by a table of 1/(2 pi) (Payne & Hanek); one large argument sends its whole group of 4 lanes (groups.h) to the table.
#pragma once

#include "../lanes.h"
#include "double_float.h"
#include "groups.h"
#include "hyperbolic.h"
#include "turn_table.h"

namespace densecore::DENSECORE_ISA {

namespace trigonometric {

inline constexpr float kPiA = 3.1414794921875f, kPiB = 0.00011315941810607910156f, kPiC = 1.9841872589410058936e-09f;
inline constexpr float kPiHi = 3.1415927410125732422f, kPiLo = -8.7422776573475857731e-08f;
inline constexpr float kInvPi = 0x1.45f306p-2f;
inline constexpr float kTableFrom = 125.0f;

// A quarter-turn count and the angle left, in [-pi/4, pi/4].
template <class V>
struct Reduced {
  mask_type<V> quadrant;
  DoubleFloat<V> angle;
};

// Lane by lane, since the rows of lanes differ; column is 0..3.
template <class V>
DENSECORE_INLINE V turn_table_column(mask_type<V> row, int column) {
  mask_type<V> words;
  for (int i = 0; i < lane_count<V>; ++i) words[i] = static_cast<int32_t>(kTurnTable[row[i] * 4 + column]);
  return from_bits(words);
}

// Takes the quarter turns out of x, a number of turns.
template <class V>
DENSECORE_INLINE mask_type<V> take_quarters(V& x) {
  const V quarters = round_even(x * 4.0f);
  const mask_type<V> quadrant = to_int(quarters - round_even(x) * 4.0f);
  x = x - quarters * 0.25f;
  return quadrant;
}

template <class V>
DENSECORE_INLINE Reduced<V> reduce_by_table(V a) {
  const mask_type<V> finite = abs(a) < __builtin_inff();
  mask_type<V> row = (((bits(a) >> 23) & 0xff) - 127 - 25) & finite;
  a = from_bits(bits(a) - ((row > 90 - 25) & (64 << 23)));
  row = row & (row > 0);
  DoubleFloat<V> x = mul(a, turn_table_column<V>(row, 0));
  mask_type<V> quadrant = take_quarters(x.hi);
  x = normalize(x);
  x = add(x, mul(a, turn_table_column<V>(row, 1)));
  quadrant += take_quarters(x.hi);
  x = normalize(x);
  x = add(x, mul(DoubleFloat<V>{turn_table_column<V>(row, 2), turn_table_column<V>(row, 3)}, a));
  x = mul(normalize(x), double_float<V>(kPiHi * 2, kPiLo * 2));
  const mask_type<V> small = abs(a) < 0.7f;
  return {quadrant, {select(small, a, x.hi), select(small, V{}, x.lo)}};
}

// The angle with +-pi/2 added towards zero, by the sign of `towards`.
template <class V>
DENSECORE_INLINE DoubleFloat<V> shift_quarter(DoubleFloat<V> angle, V towards) {
  const DoubleFloat<V> quarter = {multiply_sign(splat<V>(kPiHi * -0.5f), towards), multiply_sign(splat<V>(kPiLo * -0.5f), towards)};
  return add(angle, quarter);
}

template <class V>
DENSECORE_INLINE DoubleFloat<V> select_pair(mask_type<V> mask, DoubleFloat<V> a, DoubleFloat<V> b) {
  return {select(mask, a.hi, b.hi), select(mask, a.lo, b.lo)};
}

template <class V>
DENSECORE_INLINE V sine_series(DoubleFloat<V> angle) {
  const DoubleFloat<V> s = square(angle);
  V u = splat<V>(2.6083159809786593541503e-06f);
  u = fma(u, s.hi, splat<V>(-0.0001981069071916863322258f));
  u = fma(u, s.hi, splat<V>(0.00833307858556509017944336f));
  const DoubleFloat<V> x =
      add_ordered(splat<V>(1.0f), mul(add_ordered(splat<V>(-0.166666597127914428710938f), u * s.hi), s));
  return fma(angle.hi, x.hi, fma(angle.lo, x.hi, angle.hi * x.lo));
}

// x with its sign flipped where the mask is set.
template <class V>
DENSECORE_INLINE V flip_sign(V x, mask_type<V> mask) {
  return from_bits(bits(x) ^ (mask & static_cast<int32_t>(0x80000000)));
}

}  // namespace trigonometric

template <class V>
DENSECORE_INLINE V sin_u10(V x) {
  using namespace trigonometric;
  using I = mask_type<V>;
  const V n = round_even(x * kInvPi);
  I half_turns = to_int(n);
  DoubleFloat<V> angle = add(fma(n, splat<V>(-kPiA), x), n * -kPiB);
  angle = add_ordered(angle, n * -kPiC);
  const I large = ~(abs(x) < kTableFrom);
  if (any(large)) {
    const I by_table = spread_in_groups(large);
    const Reduced<V> r = reduce_by_table(x);
    const I quadrant = r.quadrant & 3;
    const I half = (quadrant + quadrant + (r.angle.hi > 0.0f ? I{} + 2 : I{} + 1)) >> 2;
    DoubleFloat<V> t = select_pair((r.quadrant & 1) == 1, shift_quarter(r.angle, r.angle.hi), r.angle);
    t = normalize(t);
    t.hi = select(abs(x) < __builtin_inff(), t.hi, splat<V>(__builtin_nanf("")));
    half_turns = by_table ? half : half_turns;
    angle = select_pair(by_table, t, angle);
  }
  const V y = flip_sign(sine_series(angle), (half_turns & 1) == 1);
  return select(x == 0.0f, x, y);
}

template <class V>
DENSECORE_INLINE V cos_u10(V x) {
  using namespace trigonometric;
  using I = mask_type<V>;
  const V n = fma(round_even(fma(x, splat<V>(kInvPi), splat<V>(-0.5f))), splat<V>(2.0f), splat<V>(1.0f));
  I quarters = to_int(n);
  DoubleFloat<V> angle = add(x, n * (-kPiA * 0.5f));
  angle = add(angle, n * (-kPiB * 0.5f));
  angle = add(angle, n * (-kPiC * 0.5f));
  const I large = ~(abs(x) < kTableFrom);
  if (any(large)) {
    const I by_table = spread_in_groups(large);
    const Reduced<V> r = reduce_by_table(x);
    const I quadrant = r.quadrant & 3;
    const I positive = r.angle.hi > 0.0f;
    const I quarter = (quadrant + quadrant + (positive ? I{} + 8 : I{} + 7)) >> 1;
    const V towards = select(positive, V{}, splat<V>(-1.0f));
    DoubleFloat<V> t = select_pair((r.quadrant & 1) == 0, shift_quarter(r.angle, towards), r.angle);
    t = normalize(t);
    t.hi = select(abs(x) < __builtin_inff(), t.hi, splat<V>(__builtin_nanf("")));
    quarters = by_table ? quarter : quarters;
    angle = select_pair(by_table, t, angle);
  }
  return flip_sign(sine_series(angle), (quarters & 2) == 0);
}

template <class V>
DENSECORE_INLINE V tan_u10(V x) {
  using namespace trigonometric;
  using I = mask_type<V>;
  const V n = round_even(x * (kInvPi * 2));
  I quarters = to_int(n);
  DoubleFloat<V> angle = add(fma(n, splat<V>(-kPiA * 0.5f), x), n * (-kPiB * 0.5f));
  angle = add_ordered(angle, n * (-kPiC * 0.5f));
  const I large = ~(abs(x) < kTableFrom);
  if (any(large)) {
    const I by_table = spread_in_groups(large);
    Reduced<V> r = reduce_by_table(x);
    const V nan = splat<V>(__builtin_nanf(""));
    r.angle.hi = select(abs(x) < __builtin_inff(), r.angle.hi, nan);
    quarters = by_table ? r.quadrant : quarters;
    angle = select_pair(by_table, r.angle, angle);
  }
  const I inverted = (quarters & 1) == 1;  // tan(a + pi/2) = 1 / tan(-a)
  angle = {flip_sign(angle.hi, inverted), flip_sign(angle.lo, inverted)};
  const DoubleFloat<V> s = normalize(square(angle));
  V u = splat<V>(0.00446636462584137916564941f);
  u = fma(u, s.hi, splat<V>(-8.3920182078145444393158e-05f));
  u = fma(u, s.hi, splat<V>(0.0109639242291450500488281f));
  u = fma(u, s.hi, splat<V>(0.0212360303848981857299805f));
  u = fma(u, s.hi, splat<V>(0.0540687143802642822265625f));
  DoubleFloat<V> p = add_ordered(splat<V>(0.133325666189193725585938f), u * s.hi);
  p = add_ordered(splat<V>(0.33333361148834228515625f), mul(s, p));
  p = add_ordered(splat<V>(1.0f), mul(p, s));
  p = mul(angle, p);
  p = select_pair(inverted, reciprocal(p), p);
  return select(x == 0.0f, x, total(p));
}

}  // namespace densecore::DENSECORE_ISA
