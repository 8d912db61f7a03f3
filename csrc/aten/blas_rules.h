// The profile's BLAS table as Python hands it over (torch_densecore/blas_rules.py).
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "numerics/blas/accelerate_rules.h"

namespace densecore {

using SumOrderFields = std::tuple<int, int, bool>;
// routine, first matrix, smallest product, order, order of an odd last column, provisional
using BlasRuleFields = std::tuple<std::string, std::string, int64_t, SumOrderFields, SumOrderFields, bool>;

// Lives as long as the process, like the profile that points to it. Throws std::invalid_argument (ValueError in Python).
const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields);

}  // namespace densecore
