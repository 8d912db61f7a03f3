// A double logarithm on lanes, good to about 2^-50 relative: enough to round to float where the caller can check the rounding.
// Private to csrc/numerics/random.
#pragma once

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

// For normal x in (0, 1]. x = 2^e f with f in [sqrt(1/2), sqrt(2)); log f = 2 atanh(s), s = (f - 1) / (f + 1), |s| < 0.1716.
template <class D>
DENSECORE_INLINE D log_approx(D x) {
  using I = mask_type<D>;
  const I word = bit_cast<I>(x);
  const I e = (word - 0x3fe6a09e667f3bcd) >> 52;  // the word of sqrt(1/2)
  const D f = bit_cast<D>(word - (e << 52));
  const D n = bit_cast<D>(e + 0x4338000000000000) - 0x1.8p52;
  const D s = (f - 1.0) / (f + 1.0), s2 = s * s;
  D series = splat<D>(2.0 / 23);
  for (double c : {2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3}) series = series * s2 + c;
  const D tail = s * s2 * series + n * 0x1.ef35793c76730p-45;  // ln 2 in two parts; n times the first is exact
  return n * 0x1.62e42fefa38p-1 + (2.0 * s + tail);
}

}  // namespace densecore::DENSECORE_ISA
