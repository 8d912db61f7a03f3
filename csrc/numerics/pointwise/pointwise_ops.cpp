// addcmul and addcdiv. The vector code of addcmul rounds every operation; in its scalar code the compiler fuses the last two, so
// loop tails and strided rows differ from vector bodies. addcdiv has no multiply-add to fuse.
#include "binary_ops.h"

#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class T>
DENSECORE_INLINE void addcmul(const Loop2d& loop, const Profile& profile, T scale) {
  vectorized_loop<T, 3>(
      loop, profile, [scale](auto self, auto t1, auto t2) { return self + scale * t1 * t2; },
      [scale](T self, T t1, T t2) { return fma(scale * t1, t2, self); });
}

template <class T>
DENSECORE_INLINE void addcdiv(const Loop2d& loop, const Profile& profile, T scale) {
  vectorized_loop<T, 3>(loop, profile, [scale](auto self, auto t1, auto t2) { return self + scale * t1 / t2; });
}

}  // namespace

void addcmul_f32(const Loop2d& loop, const Profile& profile, float scale) { addcmul(loop, profile, scale); }
void addcmul_f64(const Loop2d& loop, const Profile& profile, double scale) { addcmul(loop, profile, scale); }
void addcdiv_f32(const Loop2d& loop, const Profile& profile, float scale) { addcdiv(loop, profile, scale); }
void addcdiv_f64(const Loop2d& loop, const Profile& profile, double scale) { addcdiv(loop, profile, scale); }

}  // namespace densecore::DENSECORE_ISA
