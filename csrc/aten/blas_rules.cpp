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
  const auto [lanes, accumulators, fused_tail] = fields;
  if (lanes < 1 || lanes > kMaxLanes || accumulators < 1 || accumulators > kMaxAccumulators) {
    throw std::invalid_argument("densecore: a BLAS order has 1 to 16 lanes and accumulators");
  }
  return {lanes, accumulators, fused_tail};
}

BlasRule as_rule(const BlasRuleFields& fields) {
  const auto& [routine, trans, minimum_product, order, odd_last_column, provisional] = fields;
  if (trans != "N" && trans != "T" && trans != "*") throw std::invalid_argument("densecore: a BLAS rule is for 'N', 'T' or '*'");
  return {routine_named(routine), trans[0], minimum_product, as_order(order), as_order(odd_last_column), provisional};
}

}  // namespace

const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields) {
  if (fields.empty() || fields.size() > kMaxBlasRules) throw std::invalid_argument("densecore: a BLAS table has 1 to 16 rules");
  auto rules = std::make_unique<BlasRules>();
  rules->count = 0;
  for (const auto& one : fields) rules->rows[rules->count++] = as_rule(one);
  return rules.release();
}

}  // namespace densecore
