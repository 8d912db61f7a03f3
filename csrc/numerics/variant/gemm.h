// Matrix products in the order that a profile's BLAS table gives, where that is not one that blas/ has.
#pragma once

#include "../blas/bmm.h"
#include "../blas/gemm.h"

namespace densecore::variant {

// The profile's table must have an order for the call (BlasRules::find with m, n, k).
void gemm(const Profile& profile, const GemmCall& call);

// torch's own loops (blas/bmm.h) as a compiler leaves them that does not turn them into vector code.
void bmm_loops(const Profile& profile, const BmmCall& call);

}  // namespace densecore::variant
