// pow of two lane vectors: SLEEF powf, 1.0 ulp, exp(y log|x|) on double-float with the special cases of C.
#pragma once

#include "../lanes.h"
#include "exp.h"
#include "hyperbolic.h"
#include "log.h"

namespace densecore::DENSECORE_ISA {

template <class V>
DENSECORE_INLINE V truncate(V x) {
  // Magnitudes of 2^23 and more are integers, and may not fit an int.
  const V whole = copysign(to_float(to_int(select(abs(x) < 0x1p+23f, x, V{}))), x);
  return select(abs(x) < 0x1p+23f, whole, x);
}

// The result for x < 0, for zeros, infinities and NaN; `result` is |x|^y where that is finite.
template <class V>
DENSECORE_INLINE V pow_special_cases(V x, V y, V result) {
  using I = mask_type<V>;
  const V inf = splat<V>(__builtin_inff()), one = splat<V>(1.0f), nan = splat<V>(__builtin_nanf(""));
  const V magnitude = abs(x);
  const I y_is_large = abs(y) >= 0x1p+24f;  // every such float is even
  const I y_is_integer = (truncate(y) == y) | y_is_large;
  const I y_is_odd = ((to_int(select(y_is_large, V{}, y)) & 1) != 0) & y_is_integer & ~y_is_large;
  const V sign = select(y_is_odd, -one, one);
  result *= select(x > 0.0f, one, select(y_is_integer, sign, nan));

  const V growth = multiply_sign(magnitude - 1.0f, y);  // its sign says whether x^y grows as |y| does
  const V at_infinity = select(growth < 0.0f, V{}, select(growth == 0.0f, one, inf));
  result = select(abs(y) == inf, at_infinity, result);

  const I x_is_zero = x == 0.0f;
  const I vanishes = (bits(y) < 0) ^ x_is_zero;  // 0^positive and inf^negative
  const V at_limit = multiply_sign(select(vanishes, V{}, inf), select(y_is_odd, x, one));
  result = select((magnitude == inf) | x_is_zero, at_limit, result);
  result = select(is_nan(x) | is_nan(y), nan, result);
  return select((y == 0.0f) | (x == 1.0f), one, result);
}

template <class V>
DENSECORE_INLINE V pow_u10(V x, V y) {
  const V inf = splat<V>(__builtin_inff());
  V result = exp_of_double_float(mul(log_double_float(abs(x)), y));
  result = select(is_nan(result), inf, result);
  const mask_type<V> ordinary = (x > 0.0f) & (x < inf) & (abs(y) < inf);
  return any(~ordinary) ? pow_special_cases(x, y, result) : result;
}

}  // namespace densecore::DENSECORE_ISA
