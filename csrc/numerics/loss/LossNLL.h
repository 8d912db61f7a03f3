// Negative log likelihood, summed or averaged (ATen/native/LossNLL.cpp, LossNLL2d.cpp).
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

// Contiguous log-probabilities (batch, classes, positions) and targets (batch, positions); positions is 1 without image dimensions.
template <class Index>
struct NllInput {
  const float* log_probability;
  const Index* target;
  const float* weight;  // of the classes; may be null
  int64_t batch;
  int64_t classes;
  int64_t positions;
  int64_t ignore_index;
  bool mean;  // divides the loss by the total weight
};

struct NllResult {
  float loss;
  float total_weight;
  bool valid;  // false if a target is no class
};

using NllLossFn = NllResult(const NllInput<int64_t>& input);
DENSECORE_KERNEL(nll_loss, NllLossFn);
using NllLossByteFn = NllResult(const NllInput<uint8_t>& input);
DENSECORE_KERNEL(nll_loss_byte, NllLossByteFn);

}  // namespace densecore
