// The reference that kernels reproduce, as far as it decides bits. Mirrors torch_densecore/profile.py.
#pragma once

#include "blas/accelerate_rules.h"

namespace densecore {

struct Profile {
  int threads = 4;  // intra-op threads of the reference: at::get_num_threads() on an M1..M4 base chip
  int lanes = 4;    // Vectorized<float>::size(): 4 on NEON since torch 2.6, 8 before
  const BlasRules* blas = &kAccelerateRules;  // order of summation of small products, sgemv and sdot
};

}  // namespace densecore
