// Sums of negative log likelihoods: a cascade of 8 levels in scalar code, so a weight's product is fused with the sum. An ignored
// target adds nothing and moves no level up.
#include "LossNLL.h"

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int kLevels = 8;

// log2 of the additions per level.
int level_power(int64_t count) {
  const int ceil_log2 = count <= 2 ? 1 : 64 - __builtin_clzll(static_cast<uint64_t>(count - 1));
  return ceil_log2 / kLevels > 4 ? ceil_log2 / kLevels : 4;
}

float sum_of(const float* levels) {
  float sum = 0.0f;
  for (int j = 0; j < kLevels; ++j) sum += levels[j];
  return sum;
}

template <class Index>
NllResult loss_of(const NllInput<Index>& in) {
  const int64_t count = in.batch * in.positions;
  const int power = level_power(count);
  const int64_t mask = (int64_t{1} << power) - 1;
  float loss[kLevels] = {}, weight[kLevels] = {};
  int64_t ignored = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t target = in.target[i];
    if (target == in.ignore_index) {
      ++ignored;
      continue;
    }
    if (target < 0 || target >= in.classes) return {0, 0, false};
    const int64_t sample = i / in.positions, position = i % in.positions;
    const float value = in.log_probability[(sample * in.classes + target) * in.positions + position];
    if (in.weight) {
      loss[0] = fma(-value, in.weight[target], loss[0]);
      weight[0] += in.weight[target];
    } else {
      loss[0] -= value;
    }
    for (int j = 0; j + 1 < kLevels && (i & (mask << (j * power))) == 0; ++j) {
      loss[j + 1] += loss[j];
      weight[j + 1] += weight[j];
      loss[j] = weight[j] = 0.0f;
    }
  }
  const float total_weight = in.weight ? sum_of(weight) : static_cast<float>(count - ignored);
  const float total = sum_of(loss);
  return {in.mean ? total / total_weight : total, total_weight, true};
}

}  // namespace

NllResult nll_loss(const NllInput<int64_t>& input) { return loss_of(input); }
NllResult nll_loss_byte(const NllInput<uint8_t>& input) { return loss_of(input); }

}  // namespace densecore::DENSECORE_ISA
