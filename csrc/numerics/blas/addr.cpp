// The vector code rounds every operation; the scalar code fuses beta * self into the sum.
#include "addr.h"

#include "../pointwise/vectorized_loop.h"

namespace densecore::DENSECORE_ISA {

void addr_f32(const Loop2d& loop, const Profile& profile, float beta, float alpha) {
  if (beta == 0) {
    return vectorized_loop<float, 3>(loop, profile, [=]<class V>(V, V vec1, V vec2) { return broadcast<V>(alpha) * vec1 * vec2; });
  }
  vectorized_loop<float, 3>(
      loop, profile,
      [=]<class V>(V self, V vec1, V vec2) {
        const V scaled = broadcast<V>(beta) * self;
        return scaled + broadcast<V>(alpha) * vec1 * vec2;
      },
      [=](float self, float vec1, float vec2) { return fma(beta, self, alpha * vec1 * vec2); });
}

}  // namespace densecore::DENSECORE_ISA
