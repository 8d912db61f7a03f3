// The profile's BLAS table as Python hands it over (torch_densecore/blas_rules.py).
#pragma once

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "numerics/profile.h"

namespace densecore {

// lanes, accumulators, whether the tail is fused, whether the products are, block of k, two halves, order of the lanes
using SumOrderFields = std::tuple<int, int, bool, bool, int64_t, bool, int>;
// routine, first matrix, smallest m * n * k, m, n and k, order, order of an odd last column, provisional, known, when beta * C is added
using BlasRuleFields = std::tuple<std::string, std::string, std::array<int64_t, 4>, SumOrderFields, SumOrderFields, bool, bool, int>;

// `largest`: side and depth up to which the table holds. Lives as long as the process, like the profile that points to it. Throws std::invalid_argument (ValueError in Python).
const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields, std::pair<int64_t, int64_t> largest);

// alpha * op(A) * op(B) + beta * C with m by n results, each from a sum of k elements.
struct BlasRequest {
  BlasRoutine routine;
  char trans;  // of A
  int64_t m;
  int64_t n;
  int64_t k;
  float alpha = 1;
  float beta = 0;
};

// Whether the kernels of blas/ compute it; else those of variant/ do. Raises UncertifiedOpError, with the request and the ways on, where
// the profile does not know in which order it is summed.
bool is_plain(const Profile& profile, const BlasRequest& request);

}  // namespace densecore
