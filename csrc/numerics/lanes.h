// The lane primitives: every vector algorithm of csrc/numerics is written once on these.
//
// F32<N> is N float lanes, I32<N> N int32 lanes (compiler vector types: + - * / compare and bit operators act lane by lane). An
// algorithm is a template on the vector type, so the same source runs on 4 lanes or on kWidth lanes at once; a lane never
// sees another, so how many a host holds cannot change a bit. Where the reference's 4-lane grouping matters (reductions),
// the algorithm spells the grouping itself.
//
// Compiled with -ffp-contract=off: an expression a * b + c is two roundings, a fused one is spelled fma(a, b, c).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "dispatch.h"

#if DENSECORE_X86
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace densecore::DENSECORE_ISA {

#define DENSECORE_INLINE inline __attribute__((always_inline))

template <class T, int N>
struct VectorType {
  typedef T type __attribute__((vector_size(sizeof(T) * N)));
};
template <int N>
using F32 = typename VectorType<float, N>::type;
template <int N>
using I32 = typename VectorType<int32_t, N>::type;
template <int N>
using F64 = typename VectorType<double, N>::type;
template <int N>
using I64 = typename VectorType<int64_t, N>::type;

// Float lanes of one host register.
#if defined(__AVX512F__)
inline constexpr int kWidth = 16;
#elif defined(__AVX2__)
inline constexpr int kWidth = 8;
#else
inline constexpr int kWidth = 4;
#endif

template <class V>
using lane_type = std::decay_t<decltype(V{}[0])>;
template <class V>
inline constexpr int lane_count = sizeof(V) / sizeof(lane_type<V>);
// The integer vector that a comparison of V gives: all ones for true.
template <class V>
using mask_type = std::decay_t<decltype(V{} < V{})>;

template <class To, class From>
DENSECORE_INLINE To bit_cast(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &v, sizeof(To));
  return to;
}
template <class V>
DENSECORE_INLINE V load(const lane_type<V>* p) {
  V v;
  std::memcpy(&v, p, sizeof(V));
  return v;
}
template <class V>
DENSECORE_INLINE void store(lane_type<V>* p, V v) {
  std::memcpy(p, &v, sizeof(V));
}
// The first n lanes from memory, zero in the others.
template <class V>
DENSECORE_INLINE V load_partial(const lane_type<V>* p, int64_t n) {
#if defined(__AVX512VL__)  // a mask, where memcpy of an unknown size would be a library call
  [[maybe_unused]] const unsigned first = (1u << n) - 1;
  if constexpr (sizeof(V) == 64 && lane_count<V> == 16) return bit_cast<V>(_mm512_maskz_loadu_epi32(first, p));
  if constexpr (sizeof(V) == 32 && lane_count<V> == 8) return bit_cast<V>(_mm256_maskz_loadu_epi32(first, p));
  if constexpr (sizeof(V) == 16 && lane_count<V> == 4) return bit_cast<V>(_mm_maskz_loadu_epi32(first, p));
#endif
  V v = {};
  std::memcpy(&v, p, n * sizeof(lane_type<V>));
  return v;
}
template <class V>
DENSECORE_INLINE void store_partial(lane_type<V>* p, V v, int64_t n) {
#if defined(__AVX512VL__)
  [[maybe_unused]] const unsigned first = (1u << n) - 1;
  if constexpr (sizeof(V) == 64 && lane_count<V> == 16) return _mm512_mask_storeu_epi32(p, first, bit_cast<__m512i>(v));
  if constexpr (sizeof(V) == 32 && lane_count<V> == 8) return _mm256_mask_storeu_epi32(p, first, bit_cast<__m256i>(v));
  if constexpr (sizeof(V) == 16 && lane_count<V> == 4) return _mm_mask_storeu_epi32(p, first, bit_cast<__m128i>(v));
#endif
  std::memcpy(p, &v, n * sizeof(lane_type<V>));
}
template <class V>
DENSECORE_INLINE V splat(lane_type<V> x) {
  return x - V{};
}
// Lane i is a[i] where the mask is all ones, else b[i].
template <class V>
DENSECORE_INLINE V select(mask_type<V> mask, V a, V b) {
  return mask ? a : b;
}

namespace detail {

// a * b + c rounded once, for a host without FMA. The product of two floats is exact in double; the sum is rounded to odd there, so
// rounding it to float is the only rounding (Boldo & Melquiond 2008: 53 >= 2 * 24 + 2).
__attribute__((noinline)) inline float soft_fma(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = c;
  double sum = product + addend;
  const double high = sum - addend;
  const double error = (product - high) + (addend - (sum - high));
  int64_t word = bit_cast<int64_t>(sum);
  if (error != 0 && std::isfinite(sum) && (word & 1) == 0) {
    word += ((error > 0) == (sum > 0)) ? 1 : -1;
    sum = bit_cast<double>(word);
  }
  return static_cast<float>(sum);
}

// The vector type of half as many lanes.
template <class T>
using half_of = typename VectorType<lane_type<T>, lane_count<T> / 2>::type;

// Shuffles rather than memcpy: the compiler keeps them in registers.
template <class V, int... I>
DENSECORE_INLINE half_of<V> pick(V v, int first, std::integer_sequence<int, I...>) {
  constexpr int n = lane_count<V> / 2;
  return first == 0 ? __builtin_shufflevector(v, v, I...) : __builtin_shufflevector(v, v, (n + I)...);
}
template <class V>
DENSECORE_INLINE half_of<V> low(V v) {
  return pick(v, 0, std::make_integer_sequence<int, lane_count<V> / 2>{});
}
template <class V>
DENSECORE_INLINE half_of<V> high(V v) {
  return pick(v, 1, std::make_integer_sequence<int, lane_count<V> / 2>{});
}
template <class V, int... I>
DENSECORE_INLINE V join_lanes(half_of<V> lo, half_of<V> hi, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(lo, hi, I...);
}
template <class V>
DENSECORE_INLINE V join(half_of<V> lo, half_of<V> hi) {
  return join_lanes<V>(lo, hi, std::make_integer_sequence<int, lane_count<V>>{});
}

}  // namespace detail

// ---- scalars -------------------------------------------------------------------------------------------------------------

DENSECORE_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return detail::soft_fma(a, b, c);
#endif
}
// Without FMA the C library's fma is called, which is correctly rounded on every host that torch supports.
DENSECORE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
DENSECORE_INLINE float sqrt(float a) { return __builtin_sqrtf(a); }
DENSECORE_INLINE double sqrt(double a) { return __builtin_sqrt(a); }

// ---- fused multiply-add: a * b + c, one rounding -------------------------------------------------------------------------

template <class V>
  requires(sizeof(V) > sizeof(double))
DENSECORE_INLINE V fma(V a, V b, V c) {
  [[maybe_unused]] constexpr bool single = sizeof(lane_type<V>) == 4;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && single) return bit_cast<V>(_mm512_fmadd_ps(bit_cast<__m512>(a), bit_cast<__m512>(b), bit_cast<__m512>(c)));
  if constexpr (sizeof(V) == 64 && !single) return bit_cast<V>(_mm512_fmadd_pd(bit_cast<__m512d>(a), bit_cast<__m512d>(b), bit_cast<__m512d>(c)));
#endif
#if defined(__FMA__)
  if constexpr (sizeof(V) == 32 && single) return bit_cast<V>(_mm256_fmadd_ps(bit_cast<__m256>(a), bit_cast<__m256>(b), bit_cast<__m256>(c)));
  if constexpr (sizeof(V) == 32 && !single) return bit_cast<V>(_mm256_fmadd_pd(bit_cast<__m256d>(a), bit_cast<__m256d>(b), bit_cast<__m256d>(c)));
  if constexpr (sizeof(V) == 16 && single) return bit_cast<V>(_mm_fmadd_ps(bit_cast<__m128>(a), bit_cast<__m128>(b), bit_cast<__m128>(c)));
  if constexpr (sizeof(V) == 16 && !single) return bit_cast<V>(_mm_fmadd_pd(bit_cast<__m128d>(a), bit_cast<__m128d>(b), bit_cast<__m128d>(c)));
#elif defined(__aarch64__)
  if constexpr (sizeof(V) == 16 && single) return bit_cast<V>(vfmaq_f32(bit_cast<float32x4_t>(c), bit_cast<float32x4_t>(a), bit_cast<float32x4_t>(b)));
  if constexpr (sizeof(V) == 16 && !single) return bit_cast<V>(vfmaq_f64(bit_cast<float64x2_t>(c), bit_cast<float64x2_t>(a), bit_cast<float64x2_t>(b)));
#endif
  if constexpr (sizeof(V) > 16) {
    return detail::join<V>(fma(detail::low(a), detail::low(b), detail::low(c)), fma(detail::high(a), detail::high(b), detail::high(c)));
  } else {
    V r;
    for (int i = 0; i < lane_count<V>; ++i) r[i] = fma(a[i], b[i], c[i]);
    return r;
  }
}

// c - a * b, one rounding (FMLS). Spelled out where gcc does not fold the negation into the instruction.
template <class V>
DENSECORE_INLINE V fnma(V a, V b, V c) {
#if defined(__AVX512F__)
  if constexpr (lane_count<V> == 16) return bit_cast<V>(_mm512_fnmadd_ps(bit_cast<__m512>(a), bit_cast<__m512>(b), bit_cast<__m512>(c)));
#endif
#if defined(__FMA__)
  if constexpr (lane_count<V> == 8 && sizeof(V) == 32) {
    return bit_cast<V>(_mm256_fnmadd_ps(bit_cast<__m256>(a), bit_cast<__m256>(b), bit_cast<__m256>(c)));
  }
#endif
  return fma(-a, b, c);
}

// The maskz forms below give the plain instructions; gcc 12's unmasked ones warn of an uninitialised operand.

// ---- square root, rounding, conversions ----------------------------------------------------------------------------------

template <class V>
  requires(sizeof(V) > sizeof(double))
DENSECORE_INLINE V sqrt(V a) {
  [[maybe_unused]] constexpr bool single = sizeof(lane_type<V>) == 4;
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64 && single) return bit_cast<V>(_mm512_maskz_sqrt_ps(0xffff, bit_cast<__m512>(a)));
#endif
#if defined(__AVX__)
  if constexpr (sizeof(V) == 32 && single) return bit_cast<V>(_mm256_sqrt_ps(bit_cast<__m256>(a)));
#endif
#if DENSECORE_X86
  if constexpr (sizeof(V) == 16 && single) return bit_cast<V>(_mm_sqrt_ps(bit_cast<__m128>(a)));
#elif defined(__aarch64__)
  if constexpr (sizeof(V) == 16 && single) return bit_cast<V>(vsqrtq_f32(bit_cast<float32x4_t>(a)));
#endif
  if constexpr (sizeof(V) > 16) {
    return detail::join<V>(sqrt(detail::low(a)), sqrt(detail::high(a)));
  } else {
    V r;
    for (int i = 0; i < lane_count<V>; ++i) r[i] = sqrt(a[i]);
    return r;
  }
}

// To the nearest integer, ties to even (FRINTN). -0.0 and values that round to it keep the sign.
template <int N>
DENSECORE_INLINE F32<N> round_even_n(F32<N> a) {
#if defined(__AVX512F__)
  if constexpr (N == 16) return bit_cast<F32<N>>(_mm512_maskz_roundscale_ps(0xffff, bit_cast<__m512>(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#if defined(__AVX2__)
  if constexpr (N == 8) return bit_cast<F32<N>>(_mm256_round_ps(bit_cast<__m256>(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  if constexpr (N == 4) return bit_cast<F32<N>>(_mm_round_ps(bit_cast<__m128>(a), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__aarch64__)
  if constexpr (N == 4) return bit_cast<F32<N>>(vrndnq_f32(bit_cast<float32x4_t>(a)));
#endif
  if constexpr (N > 4) {
    return detail::join<F32<N>>(round_even_n<N / 2>(detail::low(a)), round_even_n<N / 2>(detail::high(a)));
  } else {
    F32<N> r = {};
    for (int i = 0; i < N; ++i) r[i] = __builtin_rintf(a[i]);  // the rounding mode is to nearest throughout
    return r;
  }
}
template <class V>
DENSECORE_INLINE V round_even(V a) {
  return round_even_n<lane_count<V>>(a);
}

// int32 from float, toward zero, for values in range.
template <class V>
DENSECORE_INLINE mask_type<V> to_int(V a) {
  return __builtin_convertvector(a, mask_type<V>);
}
// FCVTZS: toward zero, saturating, 0 for NaN.
template <class V>
DENSECORE_INLINE mask_type<V> to_int_saturate(V a) {
  using I = mask_type<V>;
  const I above = a >= 2147483648.0f, below = a < -2147483648.0f, nan = a != a;
  const I inside = __builtin_convertvector(select(above | below | nan, V{}, a), I);
  return (inside & ~(above | below)) | (above & 2147483647) | (below & (-2147483647 - 1));
}
template <class I>
DENSECORE_INLINE typename VectorType<float, lane_count<I>>::type to_float(I a) {
  return __builtin_convertvector(a, typename VectorType<float, lane_count<I>>::type);
}

// ---- bits ----------------------------------------------------------------------------------------------------------------

template <class V>
DENSECORE_INLINE mask_type<V> bits(V a) {
  return bit_cast<mask_type<V>>(a);
}
template <class I>
DENSECORE_INLINE typename VectorType<float, lane_count<I>>::type from_bits(I a) {
  return bit_cast<typename VectorType<float, lane_count<I>>::type>(a);
}
template <class V>
DENSECORE_INLINE V abs(V a) {
  return from_bits(bits(a) & 0x7fffffff);
}
// The magnitude of a with the sign of b.
template <class V>
DENSECORE_INLINE V copysign(V a, V b) {
  return from_bits((bits(a) & 0x7fffffff) | (bits(b) & static_cast<int32_t>(0x80000000)));
}
template <class V>
DENSECORE_INLINE mask_type<V> is_nan(V a) {
  return a != a;
}
template <class I>
DENSECORE_INLINE bool any(I mask) {
#if defined(__AVX512F__)
  if constexpr (sizeof(I) == 64) return _mm512_test_epi32_mask(bit_cast<__m512i>(mask), bit_cast<__m512i>(mask)) != 0;
#endif
#if defined(__AVX__)
  if constexpr (sizeof(I) == 32) return _mm256_movemask_ps(bit_cast<__m256>(mask)) != 0;
#endif
#if DENSECORE_X86
  if constexpr (sizeof(I) == 16) return _mm_movemask_ps(bit_cast<__m128>(mask)) != 0;
#elif defined(__aarch64__)
  if constexpr (sizeof(I) == 16) return vmaxvq_u32(bit_cast<uint32x4_t>(mask)) != 0;
#endif
  lane_type<I> or_of_lanes = 0;
  for (int i = 0; i < lane_count<I>; ++i) or_of_lanes |= mask[i];
  return or_of_lanes != 0;
}

// ---- minimum and maximum -------------------------------------------------------------------------------------------------

// FMAX / FMIN: NaN if either is NaN; +0 is above -0.
template <class V>
DENSECORE_INLINE V max_arm(V a, V b) {
  const V larger = select(a > b, a, b);
  const V equal = bit_cast<V>(bits(a) & bits(b));  // of equal values only the zeros differ in bits: + wins
  return select(is_nan(a) | is_nan(b), a + b, select(a == b, equal, larger));
}
template <class V>
DENSECORE_INLINE V min_arm(V a, V b) {
  const V smaller = select(a < b, a, b);
  const V equal = bit_cast<V>(bits(a) | bits(b));
  return select(is_nan(a) | is_nan(b), a + b, select(a == b, equal, smaller));
}

}  // namespace densecore::DENSECORE_ISA
