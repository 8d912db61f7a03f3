// Vector norms. The reference accumulates one element after the other, fusing the square with the sum; only the 2-norm of contiguous
// rows runs on one vector of 4 lanes, and rounds the square.
#include "../math/libm.h"
#include "ReduceOpsKernel.h"
#include "reduced_elements.h"
#include "row_groups.h"

namespace densecore::DENSECORE_ISA {
namespace {

using Lanes = F32<kReduceBlock>;

// |x|^power of every lane.
template <class V>
V power_of(V x, float power) {
  for (int k = 0; k < lane_count<V>; ++k) x[k] = libm::powf(x[k], power);
  return x;
}

template <class V>
DENSECORE_INLINE V larger(V a, V b) { return select(is_nan(a) | is_nan(b), a + b, select(a < b, b, a)); }
template <class V>
DENSECORE_INLINE V smaller(V a, V b) { return select(is_nan(a) | is_nan(b), a + b, select(b < a, b, a)); }

// One element more.
template <Norm kKind, class V>
DENSECORE_INLINE V accumulate(V acc, V x, float power) {
  if constexpr (kKind == Norm::kZero) return acc + select(x == 0.0f, V{}, splat<V>(1.0f));
  if constexpr (kKind == Norm::kOne) return acc + abs(x);
  if constexpr (kKind == Norm::kTwo) return fma(x, x, acc);
  if constexpr (kKind == Norm::kMax) return larger(acc, abs(x));
  if constexpr (kKind == Norm::kMin) return smaller(acc, abs(x));
  if constexpr (kKind == Norm::kPower) return acc + power_of(abs(x), power);
}

float identity(Norm kind) { return kind == Norm::kMin ? __builtin_inff() : 0.0f; }

float finish(NormOp op, float acc) {
  if (op.kind == Norm::kTwo) return sqrt(acc);
  return op.kind == Norm::kPower ? libm::powf(acc, 1.0f / op.power) : acc;
}

template <Norm kKind>
void block_of(NormOp op, const BlockReader& block, ReducedDims dims, Lanes& acc) {
  Lanes value = acc;
  each_reduced_element(dims, 0, reduced_count(dims), [&](int64_t offset) { value = accumulate<kKind>(value, block.read(offset), op.power); });
  acc = value;
}

template <Norm kKind>
float range_of(NormOp op, const char* in, ReducedDims dims, int64_t begin, int64_t end, float acc) {
  using V = F32<4>;
  V value = {acc};
  each_reduced_element(dims, begin, end, [&](int64_t offset) {
    value = accumulate<kKind>(value, V{*reinterpret_cast<const float*>(in + offset)}, op.power);
  });
  return value[0];
}

// f of the kind as a template argument.
template <class F>
decltype(auto) with_kind(Norm kind, F f) {
  switch (kind) {
    case Norm::kZero: return f.template operator()<Norm::kZero>();
    case Norm::kOne: return f.template operator()<Norm::kOne>();
    case Norm::kTwo: return f.template operator()<Norm::kTwo>();
    case Norm::kMax: return f.template operator()<Norm::kMax>();
    case Norm::kMin: return f.template operator()<Norm::kMin>();
    default: return f.template operator()<Norm::kPower>();
  }
}

}  // namespace

void norm_block(NormOp op, const char* const* in, int outputs, ReducedDims dims, float* norms) {
  const BlockReader block(in, outputs);
  Lanes acc = splat<Lanes>(identity(op.kind));
  with_kind(op.kind, [&]<Norm kKind>() { block_of<kKind>(op, block, dims, acc); });
  for (int k = 0; k < outputs; ++k) norms[k] = finish(op, acc[k]);
}

float norm_range(NormOp op, const char* in, ReducedDims dims, int64_t begin, int64_t end) {
  return with_kind(op.kind, [&]<Norm kKind>() { return range_of<kKind>(op, in, dims, begin, end, identity(op.kind)); });
}

float norm_join(NormOp op, const float* ranges, int count) {
  using V = F32<4>;
  V total = {identity(op.kind)};
  for (int i = 0; i < count; ++i) {
    const V range = {ranges[i]};
    total = op.kind == Norm::kMax ? larger(total, range) : op.kind == Norm::kMin ? smaller(total, range) : total + range;
  }
  return finish(op, total[0]);
}

namespace {

void norm_two_batch(const float* const* rows, int64_t count, int64_t n, float* norms) {
  RowVector acc[kRowVectors] = {};
  const auto value = [&](int r, auto where) {
    const RowVector x = where.load(rows[r < count ? r : count - 1]);
    return x * x;
  };
  walk_groups(0, n, value, [&](int u, RowVector square, int64_t) { acc[u] = acc[u] + square; }, [](int, RowVector, int64_t) {});
  for (int64_t r = 0; r < count; ++r) {
    float lanes[kGroup];
    std::memcpy(lanes, reinterpret_cast<const float*>(acc) + r * kGroup, sizeof(lanes));
    float sum = ((lanes[0] + lanes[1]) + lanes[2]) + lanes[3];
    for (int64_t j = n / kGroup * kGroup; j < n; ++j) sum = fma(rows[r][j], rows[r][j], sum);
    norms[r] = sqrt(sum);
  }
}

}  // namespace

void norm_two_rows(const float* const* rows, int64_t count, int64_t n, float* norms) {
  for (int64_t r = 0; r < count; r += kRowBatch) {
    norm_two_batch(rows + r, count - r < kRowBatch ? count - r : kRowBatch, n, norms + r);
  }
}

}  // namespace densecore::DENSECORE_ISA
