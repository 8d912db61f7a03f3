// erf of one lane vector: Vectorized<float>::erf of the reference on NEON, formula 7.1.26 of Abramowitz & Stegun (absolute error
// 1.5e-7) with exp_u20, whose bits depend on the group of 4 lanes.
#pragma once

#include "../lanes.h"
#include "exp.h"

namespace densecore::DENSECORE_ISA {

template <class V>
DENSECORE_INLINE V erf(V x) {
  const V one = splat<V>(1.0f);
  const V t = 1.0f / fma(splat<V>(0.3275911f), abs(x), one);
  V r = splat<V>(1.061405429f);
  r = fma(r, t, splat<V>(-1.453152027f));
  r = fma(r, t, splat<V>(1.421413741f));
  r = fma(r, t, splat<V>(-0.284496736f));
  r = fma(r, t, splat<V>(0.254829592f));
  const V magnitude = fnma(t * exp_u20<true>(-(x * x)), r, one);
  return from_bits(bits(magnitude) ^ (bits(x) & static_cast<int32_t>(0x80000000)));
}

}  // namespace densecore::DENSECORE_ISA
