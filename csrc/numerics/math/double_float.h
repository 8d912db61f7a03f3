// Double-float arithmetic: a value as the unevaluated sum of two float vectors, hi + lo. The operations and their order are SLEEF's
// (src/common/df.h with FMA), since the reference's vector functions are built on them.
#pragma once

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {

template <class V>
struct DoubleFloat {
  V hi, lo;
};

template <class V>
DENSECORE_INLINE DoubleFloat<V> double_float(float hi, float lo) {
  return {splat<V>(hi), splat<V>(lo)};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> operator-(DoubleFloat<V> x) {
  return {-x.hi, -x.lo};
}
template <class V>
DENSECORE_INLINE V total(DoubleFloat<V> x) {
  return x.hi + x.lo;
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> scale(DoubleFloat<V> x, V factor) {
  return {x.hi * factor, x.lo * factor};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> normalize(DoubleFloat<V> x) {
  const V s = x.hi + x.lo;
  return {s, (x.hi - s) + x.lo};
}

// ---- sums for |x| >= |y|: three operations (dfadd, dfsub) ----

template <class V>
DENSECORE_INLINE DoubleFloat<V> add_ordered(V x, V y) {
  const V s = x + y;
  return {s, (x - s) + y};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add_ordered(DoubleFloat<V> x, V y) {
  const V s = x.hi + y;
  return {s, ((x.hi - s) + y) + x.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add_ordered(V x, DoubleFloat<V> y) {
  const V s = x + y.hi;
  return {s, ((x - s) + y.hi) + y.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add_ordered(DoubleFloat<V> x, DoubleFloat<V> y) {
  const V s = x.hi + y.hi;
  return {s, (((x.hi - s) + y.hi) + x.lo) + y.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> sub_ordered(DoubleFloat<V> x, DoubleFloat<V> y) {
  const V s = x.hi - y.hi;
  return {s, (((x.hi - s) - y.hi) + x.lo) - y.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> sub_ordered(V x, V y) {
  const V s = x - y;
  return {s, (x - s) - y};
}

// ---- sums of any order: six operations (dfadd2) ----

// The part of x + y that s = fl(x + y) lost.
template <class V>
DENSECORE_INLINE V sum_error(V x, V y, V s) {
  const V v = s - x;
  return (x - (s - v)) + (y - v);
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add(V x, V y) {
  const V s = x + y;
  return {s, sum_error(x, y, s)};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add(DoubleFloat<V> x, V y) {
  const V s = x.hi + y;
  return {s, sum_error(x.hi, y, s) + x.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add(V x, DoubleFloat<V> y) {
  const V s = x + y.hi;
  return {s, sum_error(x, y.hi, s) + y.lo};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> add(DoubleFloat<V> x, DoubleFloat<V> y) {
  const V s = x.hi + y.hi;
  return {s, sum_error(x.hi, y.hi, s) + (x.lo + y.lo)};
}

// ---- products and quotients ----

template <class V>
DENSECORE_INLINE DoubleFloat<V> mul(V x, V y) {
  const V s = x * y;
  return {s, fma(x, y, -s)};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> mul(DoubleFloat<V> x, V y) {
  const V s = x.hi * y;
  return {s, fma(x.lo, y, fma(x.hi, y, -s))};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> mul(DoubleFloat<V> x, DoubleFloat<V> y) {
  const V s = x.hi * y.hi;
  return {s, fma(x.hi, y.lo, fma(x.lo, y.hi, fma(x.hi, y.hi, -s)))};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> square(DoubleFloat<V> x) {
  const V s = x.hi * x.hi;
  return {s, fma(x.hi + x.hi, x.lo, fma(x.hi, x.hi, -s))};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> divide(DoubleFloat<V> n, DoubleFloat<V> d) {
  const V t = 1.0f / d.hi;
  const V s = n.hi * t;
  const V u = fma(t, n.hi, -s);
  const V v = fnma(d.lo, t, fnma(d.hi, t, splat<V>(1.0f)));
  return {s, fma(s, v, fma(n.lo, t, u))};
}
template <class V>
DENSECORE_INLINE DoubleFloat<V> reciprocal(DoubleFloat<V> d) {
  const V s = 1.0f / d.hi;
  return {s, s * fnma(d.lo, s, fnma(d.hi, s, splat<V>(1.0f)))};
}

}  // namespace densecore::DENSECORE_ISA
