// The reference that kernels reproduce, as far as it decides bits. Mirrors torch_densecore/profile.py.
#pragma once

#include "blas/accelerate_rules.h"

namespace densecore {

// Which a * b + c, written as a product and a sum, the reference's compiler fuses: clang those within an expression of scalar code, GCC (for
// a CPU with FMA) those in vector code too.
enum class Contraction : int { kNone, kClang, kGcc };
// The exponential of vector code: SLEEF's expf of 1.0 ulp, Vectorized<float>::exp_u20 as AVX2 and AVX-512 have it, or libm's, lane by lane.
enum class Exponential : int { kSleefU10, kU20, kLibm };
enum class Libm : int { kApple, kGlibc };

struct Profile {
  int threads = 4;  // intra-op threads of the reference: at::get_num_threads() on an M1..M4 base chip
  int lanes = 4;    // Vectorized<float>::size(): 4 on NEON since torch 2.6, 8 before
  const BlasRules* blas = &kAccelerateRules;  // order of summation of small products, sgemv and sdot
  bool fma = true;  // multiply-adds that the source asks for are fused
  Contraction contract = Contraction::kClang;
  LaneJoin lane_join = LaneJoin::kHalves;  // how reduce_all adds the lanes of a vector
  Exponential exp = Exponential::kSleefU10;
  Libm libm = Libm::kApple;
  bool saturating_casts = true;  // of a float out of an integer type's range
  bool always_variant = false;  // tests: variant kernels for the default values too

  bool fuses_vector() const { return contract == Contraction::kGcc; }
  bool fuses_scalar() const { return contract != Contraction::kNone; }
  // Whether the certified kernels do not serve it: the kernels of variant/ do.
  bool needs_variant() const {
    const Profile reference;
    return always_variant || lanes != reference.lanes || fma != reference.fma || contract != reference.contract ||
           lane_join != reference.lane_join || exp != reference.exp || libm != reference.libm;
  }
};

}  // namespace densecore
