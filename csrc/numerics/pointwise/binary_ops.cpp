// add, sub and rsub with alpha: fused in the vector code (vec::fmadd) and, by contraction, in the scalar code.
#include "binary_ops.h"

#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class T>
DENSECORE_INLINE void add(const Loop2d& loop, const Profile& profile, T scale) {
  vectorized_loop<T, 2>(loop, profile, [scale](auto self, auto other) { return fma(other, broadcast<decltype(other)>(scale), self); });
}

}  // namespace

void add_f32(const Loop2d& loop, const Profile& profile, float scale) { add(loop, profile, scale); }
void add_f64(const Loop2d& loop, const Profile& profile, double scale) { add(loop, profile, scale); }

}  // namespace densecore::DENSECORE_ISA
