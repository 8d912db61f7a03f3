// Kernels over rows and columns: softmax, layer norm.
#include "inputs.h"
#include "norm/layer_norm_kernel.h"
#include "report.h"
#include "softmax/SoftMaxKernel.h"
#include "variant/layer_norm.h"
#include "variant/softmax.h"
#include "variants.h"

namespace digest {
namespace {

constexpr int64_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 257, 1031};
constexpr densecore::SoftmaxShape kShapes[] = {{1, 1, 1},  {2, 3, 1},   {1, 5, 3},   {3, 4, 4},   {2, 7, 5},
                                               {5, 9, 17}, {2, 33, 16}, {1, 65, 70}, {4, 129, 31}};
// More than one of the profile's chunks; too slow for the variants.
constexpr densecore::SoftmaxShape kLargeShapes[] = {{70, 3, 500}, {9001, 5, 3}, {1, 2, 70001}};

using densecore::Profile;

Profile with_threads(Profile profile, int threads) {
  profile.threads = threads;
  return profile;
}

int64_t elements(densecore::SoftmaxShape s) { return s.outer * s.dim * s.inner; }

// Rows with -inf, as a causal mask gives them; the first row is masked throughout.
std::vector<float> masked(int64_t rows, int64_t n) {
  auto x = floats(n, rows * n);
  for (int64_t i = 0; i < rows * n; ++i) {
    if (i < n || i % 3 == 0) x[i] = -INFINITY;
  }
  return x;
}

// What the lines below hold: fill(line, profile, kernel), see lines_of_both.
constexpr auto kRows = [](Line& line, const Profile& profile, const auto& kernel) {
  for (const int64_t n : kLengths) {
    for (const int64_t rows : {1, 3, 50}) {
      for (const auto& x : {floats(n, rows * n), floats(n, rows * n, Kind::kMixed), masked(rows, n)}) {
        std::vector<float> y(rows * n);
        kernel(profile, x.data(), rows, n, y.data());
        line.add(y);
      }
    }
  }
};

// The same for columns of one shape.
constexpr auto kColumnsOf = [](Line& line, const Profile& profile, const auto& kernel, densecore::SoftmaxShape s) {
  for (const Kind kind : {Kind::kModerate, Kind::kMixed}) {
    const auto x = floats(s.dim, elements(s), kind);
    for (const int threads : {1, 3, 4}) {
      std::vector<float> y(x.size());
      kernel(with_threads(profile, threads), x.data(), s, y.data());
      line.add(y);
    }
  }
};

constexpr auto kColumnsBackwardOf = [](Line& line, const Profile& profile, const auto& kernel, densecore::SoftmaxShape s) {
  const auto grad = floats(s.dim, elements(s)), output = floats(s.dim + 1, elements(s), Kind::kUnit);
  std::vector<float> grad_input(grad.size());
  kernel(profile, grad.data(), output.data(), s, grad_input.data());
  line.add(grad_input);
};

template <class Fill, class Kernel, class Variant>
void column_lines(Report& report, const char* name, const Fill& fill, const Kernel& kernel, const Variant& variant) {
  const auto each_shape = [&](Line& line, const Profile& profile, const auto& k) {
    for (const auto s : kShapes) fill(line, profile, k, s);
  };
  lines_of_both(report, name, each_shape, kernel, variant);
  report.line(name, "float32/large", [&](Line& line) {
    for (const auto s : kLargeShapes) fill(line, Profile{}, kernel, s);
  });
}

constexpr auto kRowsBackward = [](Line& line, const Profile& profile, const auto& kernel) {
  for (const int64_t n : kLengths) {
    for (const int64_t rows : {1, 3, 50}) {
      const auto grad = floats(n, rows * n), output = floats(n + 1, rows * n, Kind::kUnit);
      std::vector<float> grad_input(rows * n);
      kernel(profile, grad.data(), output.data(), rows, n, grad_input.data());
      line.add(grad_input);
    }
  }
};

constexpr auto kLayerNorm = [](Line& line, const Profile& profile, const auto& kernel) {
  for (const int64_t n : kLengths) {
    for (const int64_t m : {1, 5, 33}) {
      const auto x = floats(n, m * n), gamma = floats(n + 1, n), beta = floats(n + 2, n);
      const float *weight = gamma.data(), *bias = beta.data(), *none = nullptr;
      for (const auto& [w, b] : {std::pair{weight, bias}, {none, none}, {weight, none}, {none, bias}}) {
        std::vector<float> y(m * n), mean(m), rstd(m);
        kernel(profile, x.data(), w, b, m, n, 1e-5f, y.data(), mean.data(), rstd.data());
        line.add(y);
        line.add(mean);
        line.add(rstd);
      }
    }
  }
};

void layer_norm_backward(Line& line) {
  for (const int64_t n : kLengths) {
    for (const int64_t m : {1, 5, 131}) {
      const auto dy = floats(n, m * n), x = floats(n + 1, m * n), gamma = floats(n + 2, n);
      const auto mean = floats(n + 3, m, Kind::kUnit), rstd = floats(n + 4, m, Kind::kNearOne);
      for (const int threads : {1, 2, 3, 4, 8}) {
        std::vector<float> dx(m * n), dgamma(n), dbeta(n);
        densecore::layer_norm_backward(with_threads({}, threads), dy.data(), x.data(), mean.data(), rstd.data(),
                                       threads == 3 ? nullptr : gamma.data(), m, n, dx.data(), dgamma.data(), dbeta.data());
        line.add(dx);
        line.add(dgamma);
        line.add(dbeta);
      }
    }
  }
}

}  // namespace

void rows(Report& report) {
  const auto safe = without_profile(densecore::safe_softmax_rows);
  lines_of_both(report, "softmax_rows", kRows, without_profile(densecore::softmax_rows), densecore::variant::softmax_rows);
  report.line("safe_softmax_rows", "float32", [&](Line& line) { kRows(line, {}, safe); });
  lines_of_both(report, "log_softmax_rows", kRows, without_profile(densecore::log_softmax_rows), densecore::variant::log_softmax_rows);
  column_lines(report, "softmax_columns", kColumnsOf, densecore::softmax_columns, densecore::variant::softmax_columns);
  column_lines(report, "log_softmax_columns", kColumnsOf, densecore::log_softmax_columns, densecore::variant::log_softmax_columns);
  lines_of_both(report, "softmax_rows_backward", kRowsBackward, without_profile(densecore::softmax_rows_backward),
                densecore::variant::softmax_rows_backward);
  lines_of_both(report, "log_softmax_rows_backward", kRowsBackward, without_profile(densecore::log_softmax_rows_backward),
                densecore::variant::log_softmax_rows_backward);
  column_lines(report, "softmax_columns_backward", kColumnsBackwardOf, without_profile(densecore::softmax_columns_backward),
               densecore::variant::softmax_columns_backward);
  column_lines(report, "log_softmax_columns_backward", kColumnsBackwardOf, without_profile(densecore::log_softmax_columns_backward),
               densecore::variant::log_softmax_columns_backward);
  lines_of_both(report, "layer_norm", kLayerNorm, without_profile(densecore::layer_norm), densecore::variant::layer_norm);
  report.line("layer_norm_backward", "float32", layer_norm_backward);
}

}  // namespace digest
