// Vector code: FMAX and FMIN (NaN wins, +0 is above -0). Scalar code: std::max and std::min, which keep the first of equal
// values, behind a test for NaN. fmax and fmin: FMAXNM and FMINNM everywhere.
#include "min_max.h"

#include <limits>

#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class T>
DENSECORE_INLINE T std_max(T a, T b) { return a < b ? b : a; }
template <class T>
DENSECORE_INLINE T std_min(T a, T b) { return b < a ? b : a; }

// NaN if one is NaN, else f(a, b).
template <class T, class F>
DENSECORE_INLINE T unless_nan(T a, T b, const F& f) {
  return a != a ? a : b != b ? b : f(a, b);
}

// FMAXNM: a quiet NaN loses against a number, a signalling one makes the result NaN.
template <class T>
DENSECORE_INLINE bool is_signalling(T x) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Word quiet_bit = Word{1} << (std::numeric_limits<T>::digits - 2);
  return x != x && (bit_cast<Word>(x) & quiet_bit) == 0;
}
template <class T, class F>
DENSECORE_INLINE T number_of(T a, T b, const F& f) {
  if (is_signalling(a) || is_signalling(b)) return std::numeric_limits<T>::quiet_NaN();
  return a != a ? b : b != b ? a : f(a, b);
}
template <class T>
DENSECORE_INLINE T max_number(T a, T b) {
  return number_of(a, b, [](T x, T y) { return x == y ? (std::signbit(x) ? y : x) : std_max(x, y); });
}
template <class T>
DENSECORE_INLINE T min_number(T a, T b) {
  return number_of(a, b, [](T x, T y) { return x == y ? (std::signbit(x) ? x : y) : std_min(x, y); });
}

template <class T>
DENSECORE_INLINE void maximum(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 2>(loop, profile, [](auto a, auto b) { return max_arm(a, b); },
                        [](T a, T b) { return unless_nan(a, b, std_max<T>); });
}
template <class T>
DENSECORE_INLINE void minimum(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 2>(loop, profile, [](auto a, auto b) { return min_arm(a, b); },
                        [](T a, T b) { return unless_nan(a, b, std_min<T>); });
}

// The scalar code tests only the bound for NaN; a NaN self survives the comparisons.
template <class T>
DENSECORE_INLINE void clamp_min(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 2>(loop, profile, [](auto a, auto bound) { return max_arm(a, bound); },
                        [](T a, T bound) { return bound != bound ? bound : std_max(a, bound); });
}
template <class T>
DENSECORE_INLINE void clamp_max(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 2>(loop, profile, [](auto a, auto bound) { return min_arm(a, bound); },
                        [](T a, T bound) { return bound != bound ? bound : std_min(a, bound); });
}
template <class T>
DENSECORE_INLINE void clamp(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 3>(
      loop, profile, [](auto a, auto lower, auto upper) { return min_arm(max_arm(a, lower), upper); },
      [](T a, T lower, T upper) {
        return lower != lower ? lower : upper != upper ? upper : std_min(std_max(a, lower), upper);
      });
}

// FMAX and FMIN with a number that is no NaN, in one comparison. Of equal values only the zeros differ in bits: `limit` is next to a
// zero bound where the other zero has to stay as it is.
template <class T>
struct Lower {
  T bound;
  T limit;
  explicit Lower(T b) : bound(b), limit(b == 0 && std::signbit(b) ? -std::numeric_limits<T>::denorm_min() : b) {}
  template <class V>
  DENSECORE_INLINE V operator()(V a) const {
    return a <= broadcast<V>(limit) ? broadcast<V>(bound) : a;
  }
};
template <class T>
struct Upper {
  T bound;
  T limit;
  explicit Upper(T b) : bound(b), limit(b == 0 && !std::signbit(b) ? std::numeric_limits<T>::denorm_min() : b) {}
  template <class V>
  DENSECORE_INLINE V operator()(V a) const {
    return a >= broadcast<V>(limit) ? broadcast<V>(bound) : a;
  }
};

template <class T>
DENSECORE_INLINE void clamp_scalar(const Loop2d& loop, const Profile& profile, T lower, T upper) {
  const Lower<T> at_least(lower);
  const Upper<T> at_most(upper);
  vectorized_loop<T, 1>(loop, profile, [=](auto a) { return at_most(at_least(a)); },
                        [=](T a) { return std_min(std_max(a, lower), upper); });
}
template <class T>
DENSECORE_INLINE void clamp_min_scalar(const Loop2d& loop, const Profile& profile, T bound) {
  vectorized_loop<T, 1>(loop, profile, Lower<T>(bound), [bound](T a) { return std_max(a, bound); });
}
template <class T>
DENSECORE_INLINE void clamp_max_scalar(const Loop2d& loop, const Profile& profile, T bound) {
  vectorized_loop<T, 1>(loop, profile, Upper<T>(bound), [bound](T a) { return std_min(a, bound); });
}

// Element by element: no lanes for two rare ops.
template <class T, class Op>
DENSECORE_INLINE void by_element(const Loop2d& loop, const Op& op) {
  for (int64_t row = 0; row < loop.outer; ++row) {
    std::array<char*, 3> data;
    for (int k = 0; k < 3; ++k) data[k] = loop.data[k] + row * loop.strides[3 + k];
    detail::strided_row<T>(data.data(), loop.strides, loop.inner, op, std::make_index_sequence<2>());
  }
}

}  // namespace

void maximum_f32(const Loop2d& loop, const Profile& profile) { maximum<float>(loop, profile); }
void maximum_f64(const Loop2d& loop, const Profile& profile) { maximum<double>(loop, profile); }
void minimum_f32(const Loop2d& loop, const Profile& profile) { minimum<float>(loop, profile); }
void minimum_f64(const Loop2d& loop, const Profile& profile) { minimum<double>(loop, profile); }
void fmax_f32(const Loop2d& loop, const Profile&) { by_element<float>(loop, max_number<float>); }
void fmax_f64(const Loop2d& loop, const Profile&) { by_element<double>(loop, max_number<double>); }
void fmin_f32(const Loop2d& loop, const Profile&) { by_element<float>(loop, min_number<float>); }
void fmin_f64(const Loop2d& loop, const Profile&) { by_element<double>(loop, min_number<double>); }
void clamp_min_f32(const Loop2d& loop, const Profile& profile) { clamp_min<float>(loop, profile); }
void clamp_min_f64(const Loop2d& loop, const Profile& profile) { clamp_min<double>(loop, profile); }
void clamp_max_f32(const Loop2d& loop, const Profile& profile) { clamp_max<float>(loop, profile); }
void clamp_max_f64(const Loop2d& loop, const Profile& profile) { clamp_max<double>(loop, profile); }
void clamp_f32(const Loop2d& loop, const Profile& profile) { clamp<float>(loop, profile); }
void clamp_f64(const Loop2d& loop, const Profile& profile) { clamp<double>(loop, profile); }
void clamp_scalar_f32(const Loop2d& loop, const Profile& profile, float lower, float upper) { clamp_scalar(loop, profile, lower, upper); }
void clamp_scalar_f64(const Loop2d& loop, const Profile& profile, double lower, double upper) { clamp_scalar(loop, profile, lower, upper); }
void clamp_min_scalar_f32(const Loop2d& loop, const Profile& profile, float bound) { clamp_min_scalar(loop, profile, bound); }
void clamp_min_scalar_f64(const Loop2d& loop, const Profile& profile, double bound) { clamp_min_scalar(loop, profile, bound); }
void clamp_max_scalar_f32(const Loop2d& loop, const Profile& profile, float bound) { clamp_max_scalar(loop, profile, bound); }
void clamp_max_scalar_f64(const Loop2d& loop, const Profile& profile, double bound) { clamp_max_scalar(loop, profile, bound); }

}  // namespace densecore::DENSECORE_ISA
