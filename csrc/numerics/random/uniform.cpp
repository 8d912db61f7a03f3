// uniform_: x * (to - from) + from, which the wheel fuses; a value that rounds up to `to` becomes `from`
// (ATen/native/cpu/DistributionTemplates.h).
#include "mt19937.h"

namespace densecore::DENSECORE_ISA {

void uniform_f32(RandomState& state, float from, float to, float* y, int64_t n) {
  using V = F32<kWidth>;
  const float range = to - from;
  uint32_t words[kDraws];
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_words(state, words, count);
    for (int i = 0; i < count; i += kWidth) {
      const I32<kWidth> k = bit_cast<I32<kWidth>>(load<U32<kWidth>>(words + i) & kMask24);
      const V value = fma(to_float(k) * 0x1p-24f, splat<V>(range), splat<V>(from));
      const V result = select(value == to, splat<V>(from), value);
      store_partial(y + done + i, result, std::min(kWidth, count - i));
    }
  }
}

void uniform_f64(RandomState& state, double from, double to, double* y, int64_t n) {
  constexpr int N = kWidth / 2;
  using V = F64<N>;
  const double range = to - from;
  uint64_t draws[kDraws];
  for (int64_t done = 0; done < n; done += kDraws) {
    const int count = static_cast<int>(std::min<int64_t>(kDraws, n - done));
    draw_53(state, draws, count);
    for (int i = 0; i < count; i += N) {
      const V value = fma(to_double(load<U64<N>>(draws + i)) * 0x1p-53, splat<V>(range), splat<V>(from));
      const V result = select(value == to, splat<V>(from), value);
      store_partial(y + done + i, result, std::min(N, count - i));
    }
  }
}

}  // namespace densecore::DENSECORE_ISA
