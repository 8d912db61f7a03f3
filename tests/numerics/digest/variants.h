// Lines of the kernels in variant/, under several arithmetics that a profile can ask for.
#pragma once

#include <string>
#include <vector>

#include "profile.h"
#include "report.h"

namespace digest {

struct Arithmetic {
  const char* name;
  densecore::Profile profile;
};

// As a reference's library may add up products: blocks of k that are added to beta * C one by one, lanes joined by halves, or no FMA;
// those of a vector in a chain that begins with beta * y.
inline constexpr densecore::BlasRules one_order(densecore::SumOrder order, densecore::Addend addend, densecore::Addend of_vectors) {
  using namespace densecore;
  BlasRules rules;
  rules.rows[0] = {BlasRoutine::kGemm, '*', 0, order, order, false, 0, 0, 0, true, addend};
  rules.rows[1] = {BlasRoutine::kGemv, '*', 0, order, order, false, 0, 0, 0, true, of_vectors};
  rules.rows[2] = {BlasRoutine::kDot, '*', 0, order, order, false};
  rules.count = 3;
  rules.plain = false;
  return rules;
}
using densecore::Addend;
inline constexpr auto kBlocks = one_order({1, 1, true, true, 24, true}, Addend::kFirst, Addend::kChain);
inline constexpr auto kHalves = one_order({8, 2, true, true, 64, false, densecore::LaneJoin::kHalves}, Addend::kLast, Addend::kLast);
inline constexpr auto kRounded = one_order({4, 4, false, false, 0, false, densecore::LaneJoin::kInOrder}, Addend::kLast, Addend::kFirst);

// "reference" must give the bits of the certified kernels; the others are those of torch's x86-64 wheel at its three levels.
inline std::vector<Arithmetic> arithmetics() {
  using namespace densecore;
  const Profile reference;
  Profile gcc = reference;
  gcc.contract = Contraction::kGcc;
  gcc.libm = Libm::kGlibc;
  Profile avx2 = gcc, avx512 = gcc, plain = reference;
  avx2.lanes = 8;
  avx2.blas = &kHalves;
  avx512.lanes = 16;
  avx512.exp = Exponential::kU20;
  avx512.blas = &kBlocks;
  plain.lanes = 8;
  plain.fma = false;
  plain.contract = Contraction::kNone;
  plain.lane_join = LaneJoin::kInOrder;
  plain.exp = Exponential::kLibm;
  plain.libm = Libm::kGlibc;
  plain.blas = &kRounded;
  return {{"reference", reference}, {"gcc/8-lanes", avx2}, {"gcc/16-lanes", avx512}, {"plain/8-lanes", plain}};
}

// fill(line, profile) runs the kernel of variant/ that has this name.
template <class Fill>
void variant_lines(Report& report, const char* name, const Fill& fill, const char* suffix = "") {
  for (const Arithmetic& a : arithmetics()) {
    report.line("variant::" + std::string(name), a.name + std::string(suffix), [&](Line& line) { fill(line, a.profile); });
  }
}

// A certified kernel and its variant over the same inputs: fill(line, profile, kernel) calls kernel(profile, ...).
template <class Fill, class Kernel, class Variant>
void lines_of_both(Report& report, const char* name, const Fill& fill, const Kernel& kernel, const Variant& variant) {
  report.line(name, "float32", [&](Line& line) { fill(line, densecore::Profile{}, kernel); });
  variant_lines(report, name, [&](Line& line, const densecore::Profile& profile) { fill(line, profile, variant); });
}

// A kernel that every profile shares, called like one that takes a profile.
template <class Kernel>
auto without_profile(const Kernel& kernel) {
  return [&kernel](const densecore::Profile&, auto... arguments) { kernel(arguments...); };
}

}  // namespace digest
