// lerp: from the nearer end, one fused multiply-add; vector and scalar code differ where the weight is 1 and the end is -0.
#include "binary_ops.h"

#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

// past: weight - 1, where its zero has the sign that the reference's expression gives it.
template <class V>
DENSECORE_INLINE V lerp(V self, V end, V weight, V past) {
  const V half = broadcast<V>(0.5f);
  const auto near_start = (weight < half) & (weight > -half);
  return fma(near_start ? weight : past, end - self, near_start ? self : end);
}

// Vector code adds (weight - 1) * (end - self); scalar code subtracts (1 - weight) * (end - self).
template <class V>
DENSECORE_INLINE V lerp_vector(V self, V end, V weight) {
  return lerp(self, end, weight, weight - broadcast<V>(1.0f));
}
template <class T>
DENSECORE_INLINE T lerp_one(T self, T end, T weight) {
  return lerp(self, end, weight, -(1 - weight));
}

template <class T>
DENSECORE_INLINE void lerp_scalar(const Loop2d& loop, const Profile& profile, T weight) {
  vectorized_loop<T, 2>(
      loop, profile, [weight](auto self, auto end) { return lerp_vector(self, end, broadcast<decltype(self)>(weight)); },
      [weight](T self, T end) { return lerp_one(self, end, weight); });
}

template <class T>
DENSECORE_INLINE void lerp_tensor(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 3>(
      loop, profile, [](auto self, auto end, auto weight) { return lerp_vector(self, end, weight); },
      [](T self, T end, T weight) { return lerp_one(self, end, weight); });
}

}  // namespace

void lerp_scalar_f32(const Loop2d& loop, const Profile& profile, float weight) { lerp_scalar(loop, profile, weight); }
void lerp_scalar_f64(const Loop2d& loop, const Profile& profile, double weight) { lerp_scalar(loop, profile, weight); }
void lerp_tensor_f32(const Loop2d& loop, const Profile& profile) { lerp_tensor<float>(loop, profile); }
void lerp_tensor_f64(const Loop2d& loop, const Profile& profile) { lerp_tensor<double>(loop, profile); }

}  // namespace densecore::DENSECORE_ISA
