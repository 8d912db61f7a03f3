// Hyperbolic functions of one lane vector: SLEEF's 1.0 ulp functions on the double-float exp and log.
#pragma once

#include "../lanes.h"
#include "double_float.h"
#include "exp.h"
#include "log.h"

namespace densecore::DENSECORE_ISA {

// x with its sign flipped where the other is negative.
template <class V>
DENSECORE_INLINE V multiply_sign(V x, V sign) {
  return from_bits(bits(x) ^ (bits(sign) & static_cast<int32_t>(0x80000000)));
}

template <class V>
DENSECORE_INLINE V tanh_u10(V x) {
  const DoubleFloat<V> e = exp_double_float(DoubleFloat<V>{abs(x), V{}});
  const DoubleFloat<V> inverse = reciprocal(e);
  V y = total(divide(add_ordered(e, -inverse), add_ordered(e, inverse)));
  y = select((abs(x) > 8.664339742f) | is_nan(y), splat<V>(1.0f), y);
  return select(is_nan(x), x, multiply_sign(y, x));
}

template <class V>
DENSECORE_INLINE V sinh_u10(V x) {
  const DoubleFloat<V> e = exp_double_float(DoubleFloat<V>{abs(x), V{}});
  V y = total(sub_ordered(e, reciprocal(e))) * 0.5f;
  y = select((abs(x) > 89.0f) | is_nan(y), splat<V>(__builtin_inff()), y);
  return select(is_nan(x), x, multiply_sign(y, x));
}

template <class V>
DENSECORE_INLINE V cosh_u10(V x) {
  const DoubleFloat<V> e = exp_double_float(DoubleFloat<V>{abs(x), V{}});
  V y = total(add_ordered(e, reciprocal(e))) * 0.5f;
  y = select((abs(x) > 89.0f) | is_nan(y), splat<V>(__builtin_inff()), y);
  return select(is_nan(x), x, y);
}

template <class V>
DENSECORE_INLINE V atanh_u10(V x) {
  const V one = splat<V>(1.0f);
  const V magnitude = abs(x);
  V y = total(log_of_double_float(divide(add(one, magnitude), add(one, -magnitude)))) * 0.5f;
  y = select(magnitude == 1.0f, splat<V>(__builtin_inff()), y);
  y = select(magnitude > 1.0f, splat<V>(__builtin_nanf("")), y);
  return select(is_nan(x), x, multiply_sign(y, x));
}

}  // namespace densecore::DENSECORE_ISA
