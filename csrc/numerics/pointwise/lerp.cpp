// lerp: from the nearer end, one fused multiply-add in vector and scalar code alike.
#include "binary_ops.h"

#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class V>
DENSECORE_INLINE V lerp(V self, V end, V weight) {
  const V half = broadcast<V>(0.5f), one = broadcast<V>(1.0f);
  const auto near_start = (weight < half) & (weight > -half);
  return fma(near_start ? weight : weight - one, end - self, near_start ? self : end);
}

template <class T>
DENSECORE_INLINE void lerp_scalar(const Loop2d& loop, const Profile& profile, T weight) {
  vectorized_loop<T, 2>(loop, profile, [weight](auto self, auto end) { return lerp(self, end, broadcast<decltype(self)>(weight)); });
}

template <class T>
DENSECORE_INLINE void lerp_tensor(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<T, 3>(loop, profile, [](auto self, auto end, auto weight) { return lerp(self, end, weight); });
}

}  // namespace

void lerp_scalar_f32(const Loop2d& loop, const Profile& profile, float weight) { lerp_scalar(loop, profile, weight); }
void lerp_scalar_f64(const Loop2d& loop, const Profile& profile, double weight) { lerp_scalar(loop, profile, weight); }
void lerp_tensor_f32(const Loop2d& loop, const Profile& profile) { lerp_tensor<float>(loop, profile); }
void lerp_tensor_f64(const Loop2d& loop, const Profile& profile) { lerp_tensor<double>(loop, profile); }

}  // namespace densecore::DENSECORE_ISA
