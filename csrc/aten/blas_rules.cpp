#include "aten/blas_rules.h"

#include <memory>
#include <stdexcept>

namespace densecore {
namespace {

BlasRoutine routine_named(const std::string& name) {
  if (name == "gemm") return BlasRoutine::kGemm;
  if (name == "gemv") return BlasRoutine::kGemv;
  if (name == "dot") return BlasRoutine::kDot;
  throw std::invalid_argument("densecore: unknown BLAS routine '" + name + "' (known: gemm, gemv, dot)");
}

SumOrder as_order(const SumOrderFields& fields) {
  const auto [lanes, accumulators, fused_tail, fused, block, halves, lane_join] = fields;
  if (lanes < 1 || lanes > kMaxLanes || accumulators < 1 || accumulators > kMaxAccumulators) {
    throw std::invalid_argument("densecore: a BLAS order has 1 to 16 lanes and accumulators");
  }
  return {lanes, accumulators, fused_tail, fused, block, halves, static_cast<LaneJoin>(lane_join)};
}

BlasRule as_rule(const BlasRuleFields& fields) {
  const auto& [routine, trans, least, order, odd_last_column, provisional, known] = fields;
  if (trans != "N" && trans != "T" && trans != "*") throw std::invalid_argument("densecore: a BLAS rule is for 'N', 'T' or '*'");
  return {routine_named(routine), trans[0], least[0], as_order(order), as_order(odd_last_column), provisional,
          least[1], least[2], least[3], known};
}

}  // namespace

const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields, std::pair<int64_t, int64_t> largest, bool adds_blocks_to_start) {
  if (fields.empty() || fields.size() > kMaxBlasRules) throw std::invalid_argument("densecore: a BLAS table has 1 to 64 rules");
  auto rules = std::make_unique<BlasRules>();
  rules->count = 0;
  std::tie(rules->largest_side, rules->largest_depth) = largest;
  rules->adds_blocks_to_start = adds_blocks_to_start;
  rules->plain = !adds_blocks_to_start && largest == std::pair<int64_t, int64_t>(INT64_MAX, INT64_MAX);
  for (const auto& one : fields) {
    const BlasRule& rule = rules->rows[rules->count++] = as_rule(one);
    rules->plain = rules->plain && rule.plain();
  }
  return rules.release();
}

}  // namespace densecore
