// The profile's BLAS table as Python hands it over (torch_densecore/blas_rules.py).
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "numerics/blas/accelerate_rules.h"

namespace densecore {

// lanes, accumulators, whether the tail is fused, whether the products are, block of k, two halves, order of the lanes
using SumOrderFields = std::tuple<int, int, bool, bool, int64_t, bool, int>;
// routine, first matrix, smallest m * n * k, m, n and k, order, order of an odd last column, provisional, known
using BlasRuleFields = std::tuple<std::string, std::string, std::array<int64_t, 4>, SumOrderFields, SumOrderFields, bool, bool>;

// `largest`: side and depth up to which the table holds. Lives as long as the process, like the profile that points to it. Throws std::invalid_argument (ValueError in Python).
const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields, std::pair<int64_t, int64_t> largest, bool adds_blocks_to_start);

}  // namespace densecore
