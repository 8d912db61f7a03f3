// The product in the rule table's order, output by output. Private to this folder.
#pragma once

#include "gemm.h"

namespace densecore::DENSECORE_ISA {

void small_gemm(const BlasRule& rule, const GemmCall& call);

constexpr bool is_chain(SumOrder order) { return order.lanes == 1 && order.accumulators == 1; }

}  // namespace densecore::DENSECORE_ISA
