#include "blas/bmm.h"
#include "blas/gemm.h"
#include "blas/gemv.h"
#include "inputs.h"
#include "report.h"
#include "variant/gemm.h"
#include "variants.h"

namespace digest {
namespace {

using densecore::GemmCall;
using densecore::Profile;
using Forms = std::vector<const char*>;  // transa and transb
const Forms kForms = {"NN", "TN", "NT", "TT"};

struct Size {
  int64_t m, n, k;
};
using Sizes = std::vector<Size>;
const Sizes kSizes = {{1, 1, 1},    {1, 5, 3},    {2, 3, 4},   {3, 1, 17},  {4, 4, 16},  {5, 7, 33},
                      {8, 16, 24}, {16, 16, 12}, {13, 3, 80}, {17, 33, 5}, {31, 32, 65}};
const Sizes kLargeSizes = {{64, 48, 31}, {65, 70, 129}, {1, 513, 40}, {513, 1, 300}, {96, 130, 257}};  // too slow for the variants

struct Scalars {
  float alpha, beta;
};
constexpr Scalars kScalars[] = {{1, 0}, {1, 1}, {0.3f, 0.7f}};

template <class Kernel>
void gemm(Line& line, const Profile& profile, const Kernel& kernel, const Sizes& sizes, const Forms& forms) {
  uint64_t seed = 0;
  for (const Size s : sizes) {
    for (const char* trans : forms) {
      const int64_t lda = (trans[0] == 'N' ? s.m : s.k) + 3, ldb = (trans[1] == 'N' ? s.k : s.n) + 1, ldc = s.m + 2;
      const auto a = floats(++seed, lda * (trans[0] == 'N' ? s.k : s.m)), b = floats(++seed, ldb * (trans[1] == 'N' ? s.n : s.k));
      const auto row = floats(seed, s.m);
      for (const Scalars x : kScalars) {
        auto c = floats(seed, ldc * s.n);
        kernel(profile, GemmCall{trans[0], trans[1], s.m, s.n, s.k, x.alpha, a.data(), lda, b.data(), ldb, x.beta, c.data(), 1, ldc,
                                 c.data(), ldc});
        line.add(c);
      }
      auto c = floats(seed, ldc * s.n);  // a broadcast addend, as addmm's bias
      kernel(profile, GemmCall{trans[0], trans[1], s.m, s.n, s.k, 1, a.data(), lda, b.data(), ldb, 1, row.data(), 1, 0, c.data(),
                               ldc});
      line.add(c);
    }
  }
}

template <class Kernel>
void special_values(Line& line, const Profile& profile, const Kernel& kernel) {
  const auto a = floats(1, 20 * 30, Kind::kMixed), b = floats(2, 30 * 10, Kind::kMixed);
  std::vector<float> c(20 * 10);
  kernel(profile, GemmCall{'N', 'N', 20, 10, 30, 1, a.data(), 20, b.data(), 30, 0, c.data(), 1, 20, c.data(), 20});
  line.add(c);
}

void gemm_lines(Report& report, const char* name, const densecore::Dispatched<densecore::GemmFn>& kernel, const Forms& forms = kForms) {
  report.line(name, "float32", [&](Line& line) {
    gemm(line, {}, kernel, kSizes, forms);
    special_values(line, {}, kernel);
  });
  report.line(name, "float32/large", [&](Line& line) { gemm(line, {}, kernel, kLargeSizes, forms); });
}

void variant_gemm(Line& line, const Profile& profile) {
  gemm(line, profile, densecore::variant::gemm, kSizes, kForms);
  special_values(line, profile, densecore::variant::gemm);
}

template <class Kernel>
void gemv(Line& line, const Profile& profile, const Kernel& kernel, const Sizes& sizes) {
  uint64_t seed = 0;
  for (const Size s : sizes) {
    for (const char trans : {'N', 'T'}) {
      for (const int64_t incx : {1, 2, 0}) {
        const int64_t lda = s.m + 3, length = trans == 'N' ? s.k : s.m, outputs = trans == 'N' ? s.m : s.k;
        const auto a = floats(++seed, lda * s.k), x = floats(++seed, 2 * length);
        for (const Scalars v : kScalars) {
          auto y = floats(seed, 2 * outputs);
          kernel(profile, densecore::GemvCall{trans, s.m, s.k, v.alpha, a.data(), lda, x.data(), incx, v.beta, y.data(), s.n % 2 + 1});
          line.add(y);
        }
      }
    }
  }
}

template <class Kernel>
void dot(Line& line, const Profile& profile, const Kernel& kernel) {
  for (const int64_t n : {0, 1, 3, 4, 7, 15, 16, 17, 33, 64, 100, 1031, 4100}) {
    const auto x = floats(n, 2 * n), y = floats(n + 1, 3 * n);
    line.add_value(kernel(profile, n, x.data(), 1, y.data(), 1));
    line.add_value(kernel(profile, n, x.data(), 2, y.data(), 3));
  }
}

template <class Kernel>
void bmm(Line& line, const Profile& profile, const Kernel& kernel) {
  uint64_t seed = 0;
  for (const Size s : {Size{1, 1, 1}, {2, 3, 5}, {5, 4, 8}, {7, 3, 17}, {3, 11, 12}}) {
    for (const bool along_k : {false, true}) {
      const int64_t count = 70;
      const auto left = floats(++seed, count * s.m * s.k), right = floats(++seed, count * s.k * s.n);
      for (const Scalars x : kScalars) {
        auto result = floats(seed, count * s.m * s.n);
        const densecore::MatrixBatch<const float> l{left.data(), s.m * s.k, s.k, 1};
        const densecore::MatrixBatch<const float> r{right.data(), s.k * s.n, along_k ? 1 : s.n, along_k ? s.k : 1};
        kernel(profile, densecore::BmmCall{count, s.m, s.n, s.k, x.alpha, x.beta, l, r, {result.data(), s.m * s.n, s.n, 1}});
        line.add(result);
      }
    }
  }
}

}  // namespace

void blas(Report& report) {
  gemm_lines(report, "gemm_parallel", densecore::gemm_parallel);
  gemm_lines(report, "gemm_serial", densecore::gemm_serial);
  gemm_lines(report, "gemm_loops", densecore::gemm_loops, {"NN", "TN", "NT"});
  variant_lines(report, "gemm", variant_gemm);
  const auto fill_gemv = [](Line& line, const Profile& profile, const auto& kernel) { gemv(line, profile, kernel, kSizes); };
  lines_of_both(report, "gemv", fill_gemv, densecore::gemv, densecore::variant::gemv);
  report.line("gemv", "float32/large", [](Line& line) { gemv(line, {}, densecore::gemv, kLargeSizes); });
  const auto fill_dot = [](Line& line, const Profile& profile, const auto& kernel) { dot(line, profile, kernel); };
  lines_of_both(report, "sdot", fill_dot, densecore::sdot, densecore::variant::sdot);
  const auto fill_bmm = [](Line& line, const Profile& profile, const auto& kernel) { bmm(line, profile, kernel); };
  lines_of_both(report, "bmm_loops", fill_bmm, densecore::bmm_loops, densecore::variant::bmm_loops);
}

}  // namespace digest
