// exponential_ into floats: float(-1 / lambda * log1p(-u)) with u = k / 2^53, so 1 - u is a double and log1p(-u) its logarithm. The lanes
// compute it to about 2^-50 and the values that this leaves within doubt of a rounding boundary are redone exactly.
#include "../libm_double.h"
#include "double_log.h"
#include "mt19937.h"

namespace densecore::DENSECORE_ISA {

void exponential_f32(RandomState& state, double lambda, float* y, int64_t n) {
  constexpr int N = kWidth / 2;
  constexpr double kDoubt = 0x1p-46;  // relative; log_approx is good to 2^-50
  using D = F64<N>;
  using V = typename VectorType<float, N>::type;
  const double factor = -1.0 / lambda;
  uint64_t draws[kDraws] = {};  // the lanes past the end compute on it too
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_53(state, draws, count);
    for (int i = 0; i < count; i += N) {
      const D u = to_double(load<U64<N>>(draws + i)) * 0x1p-53;
      const D value = factor * log_approx(1.0 - u) + 0.0;  // +0 for u = 0, as -1 times log1p(-0)
      V result = __builtin_convertvector(value * (1.0 - kDoubt), V);
      const V above = __builtin_convertvector(value * (1.0 + kDoubt), V);
      if (any(result != above)) {
        for (int lane = 0; lane < N; ++lane) result[lane] = static_cast<float>(factor * libm_model::log1p(-u[lane]));
      }
      store_partial(y + done + i, result, std::min(N, count - i));
    }
  }
}

}  // namespace densecore::DENSECORE_ISA
