// Matrix products in the order that a profile's BLAS table gives, where that is not one that blas/ has.
#pragma once

#include "../blas/bmm.h"
#include "../blas/gemm.h"
#include "../blas/gemv.h"

namespace densecore::variant {

// The profile's table must have an order for the call (BlasRules::find with m, n, k).
void gemm(const Profile& profile, const GemmCall& call);
float sdot(const Profile& profile, int64_t n, const float* x, int64_t incx, const float* y, int64_t incy);
// torch's own loops, for an increment that BLAS does not take, need no order.
void gemv(const Profile& profile, const GemvCall& call);

// torch's own loops (blas/bmm.h) as a compiler leaves them that does not turn them into vector code.
void bmm_loops(const Profile& profile, const BmmCall& call);

}  // namespace densecore::variant
