#include "aten/blas_rules.h"

#include <c10/util/StringUtil.h>

#include <memory>
#include <stdexcept>

#include "aten/errors.h"
#include "aten/profile.h"

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
  const auto& [routine, trans, least, order, odd_last_column, provisional, known, addend] = fields;
  if (trans != "N" && trans != "T" && trans != "*") throw std::invalid_argument("densecore: a BLAS rule is for 'N', 'T' or '*'");
  return {routine_named(routine), trans[0], least[0], as_order(order), as_order(odd_last_column), provisional,
          least[1], least[2], least[3], known, static_cast<Addend>(addend)};
}

// Whether some row fits every request, the smallest included.
bool is_complete(const BlasRules& rules) {
  for (const BlasRoutine routine : {BlasRoutine::kGemm, BlasRoutine::kGemv, BlasRoutine::kDot}) {
    if (!rules.find(routine, 'N', 1, 1, 1) || !rules.find(routine, 'T', 1, 1, 1)) return false;
  }
  return true;
}

[[noreturn]] void raise_unknown(const Profile& profile, const BlasRequest& request) {
  constexpr const char* names[] = {"sgemm", "sgemv", "sdot"};
  const std::string matrix = request.routine == BlasRoutine::kDot ? "" : c10::str(", first matrix '", request.trans, "'");
  const std::string factors = c10::str(request.alpha == 1 ? "" : ", alpha other than 1", request.beta == 0 ? "" : ", an addend");
  raise_uncertified(c10::str("densecore: the profile does not know in which order ", names[static_cast<int>(request.routine)],
                             " adds up for m = ", request.m, ", n = ", request.n, ", k = ", request.k, matrix, factors, " (", describe(profile),
                             "). Ways on: an override of the op, e.g. to \"host\"; another DENSECORE_PROFILE"));
}

}  // namespace

const BlasRules* make_blas_rules(const std::vector<BlasRuleFields>& fields, std::pair<int64_t, int64_t> largest) {
  if (fields.empty() || fields.size() > kMaxBlasRules) throw std::invalid_argument("densecore: a BLAS table has 1 to 64 rules");
  auto rules = std::make_unique<BlasRules>();
  rules->count = 0;
  std::tie(rules->largest_side, rules->largest_depth) = largest;
  for (const auto& one : fields) {
    const BlasRule& rule = rules->rows[rules->count++] = as_rule(one);
    rules->plain = rules->plain && rule.plain(INT64_MAX) && rule.addend == Addend::kLast;
  }
  rules->plain = rules->plain && largest == std::pair<int64_t, int64_t>(INT64_MAX, INT64_MAX) && is_complete(*rules);
  return rules.release();
}

bool is_plain(const Profile& profile, const BlasRequest& request) {
  const auto& [routine, trans, m, n, k, alpha, beta] = request;
  const bool product_alone = alpha == 1 && beta == 0;
  const BlasRule* rule = profile.blas->find(routine, trans, m, n, k);
  if (rule == nullptr || (rule->addend == Addend::kUnknown && !product_alone)) raise_unknown(profile, request);
  // With a single block and alpha = 1 it makes no difference whether beta * C comes first.
  const bool addend = product_alone || rule->addend == Addend::kLast || (rule->addend == Addend::kFirst && alpha == 1);
  return rule->plain(k) && addend && profile.fma && !profile.always_variant;
}

}  // namespace densecore
