// erfc of one lane vector: SLEEF erfcf, 1.5 ulp.
#pragma once

#include "../lanes.h"
#include "exp.h"
#include "trigonometric.h"

namespace densecore::DENSECORE_ISA {

namespace erfc_detail {

// One coefficient for each of the four ranges of |x|: below 1, 2.2, 4.3 and above.
template <class V>
struct Ranges {
  mask_type<V> number;  // 0 to 3
  DENSECORE_INLINE V operator()(float a, float b, float c, float d) const {
#if defined(__AVX512F__)
    if constexpr (lane_count<V> == 16) {
      const __m512 table = _mm512_maskz_broadcast_f32x4(0xffff, _mm_setr_ps(a, b, c, d));  // maskz: see lanes.h
      return bit_cast<V>(_mm512_maskz_permutevar_ps(0xffff, table, bit_cast<__m512i>(number)));
    }
#endif
#if defined(__AVX__)
    if constexpr (lane_count<V> == 8) {
      const __m256 table = _mm256_setr_ps(a, b, c, d, a, b, c, d);
      return bit_cast<V>(_mm256_permutevar_ps(table, bit_cast<__m256i>(number)));
    }
#endif
    return select(number == 0, splat<V>(a), select(number == 1, splat<V>(b), select(number == 2, splat<V>(c), splat<V>(d))));
  }
  DENSECORE_INLINE DoubleFloat<V> pair(double a, double b, double c, double d) const {
    return {(*this)(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c), static_cast<float>(d)),
            (*this)(rest(a), rest(b), rest(c), rest(d))};
  }
  static constexpr float rest(double x) { return static_cast<float>(x - static_cast<double>(static_cast<float>(x))); }
};

}  // namespace erfc_detail

template <class V>
DENSECORE_INLINE V erfc_u15(V s) {
  using trigonometric::select_pair;
  const V a = abs(s);
  const mask_type<V> direct = a < 2.2f;  // a polynomial in a; above, in 1/a
  const erfc_detail::Ranges<V> by_range = {3 + (a < 1.0f) + direct + (a < 4.3f)};  // a comparison is -1 where it holds
  const DoubleFloat<V> wide_a = {a, V{}};
  const DoubleFloat<V> u = select_pair(direct, wide_a, divide(double_float<V>(1, 0), wide_a));
  V t = by_range(-0.8638041618e-4f, -0.6236977242e-5f, -0.3869504035e+0f, +0.1115344167e+1f);
  t = fma(t, u.hi, by_range(+0.6000166177e-3f, +0.5749821503e-4f, +0.1288077235e+1f, -0.9454904199e+0f));
  t = fma(t, u.hi, by_range(-0.1665703603e-2f, +0.6002851478e-5f, -0.1816803217e+1f, -0.3667259514e+0f));
  t = fma(t, u.hi, by_range(+0.1795156277e-3f, -0.2851036377e-2f, +0.1249150872e+1f, +0.7155663371e+0f));
  t = fma(t, u.hi, by_range(+0.1914106123e-1f, +0.2260518074e-1f, -0.1328857988e+0f, -0.1262947265e-1f));
  DoubleFloat<V> d = mul(u, t);
  d = add(d, by_range.pair(-0.102775359343930288081655368891e+0, -0.105247583459338632253369014063e+0,
                           -0.482365310333045318680618892669e+0, -0.498961546254537647970305302739e+0));
  d = mul(d, u);
  d = add(d, by_range.pair(-0.636619483208481931303752546439e+0, -0.635609463574589034216723775292e+0,
                           -0.134450203224533979217859332703e-2, -0.471199543422848492080722832666e-4));
  d = mul(d, u);
  d = add(d, by_range.pair(-0.112837917790537404939545770596e+1, -0.112855987376668622084547028949e+1,
                           -0.572319781150472949561786101080e+0, -0.572364030327966044425932623525e+0));
  DoubleFloat<V> x = mul(select_pair(direct, d, DoubleFloat<V>{-a, V{}}), a);
  x = select_pair(direct, x, add(x, d));
  x = exp_double_float(x);
  x = select_pair(direct, x, mul(x, u));
  V y = select(a < 10.1f, total(x), V{});
  y = select(bits(s) < 0, 2.0f - y, y);
  return select(is_nan(s), s, y);
}

}  // namespace densecore::DENSECORE_ISA
