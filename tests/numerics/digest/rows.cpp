// Kernels over rows and columns: softmax, layer norm.
#include "inputs.h"
#include "norm/layer_norm_kernel.h"
#include "report.h"
#include "softmax/SoftMaxKernel.h"

namespace digest {
namespace {

constexpr int64_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 257, 1031};
constexpr densecore::SoftmaxShape kShapes[] = {{1, 1, 1},  {2, 3, 1},  {1, 5, 3},   {3, 4, 4},     {2, 7, 5},      {5, 9, 17},
                                               {2, 33, 16}, {1, 65, 70}, {4, 129, 31}, {70, 3, 500}, {9001, 5, 3}, {1, 2, 70001}};

densecore::Profile with_threads(int threads) {
  densecore::Profile profile;
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

void softmax_rows_line(Report& report, const char* name, const densecore::Dispatched<densecore::SoftmaxRowsFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    for (const int64_t n : kLengths) {
      for (const int64_t rows : {1, 3, 50}) {
        for (const auto& x : {floats(n, rows * n), floats(n, rows * n, Kind::kMixed), masked(rows, n)}) {
          std::vector<float> y(rows * n);
          kernel(x.data(), rows, n, y.data());
          line.add(y);
        }
      }
    }
  });
}

void softmax_columns_line(Report& report, const char* name, const densecore::Dispatched<densecore::SoftmaxColumnsFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    for (const auto s : kShapes) {
      for (const Kind kind : {Kind::kModerate, Kind::kMixed}) {
        const auto x = floats(s.dim, elements(s), kind);
        for (const int threads : {1, 3, 4}) {
          std::vector<float> y(x.size());
          kernel(with_threads(threads), x.data(), s, y.data());
          line.add(y);
        }
      }
    }
  });
}

void softmax_rows_backward_line(Report& report, const char* name, const densecore::Dispatched<densecore::SoftmaxRowsBackwardFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    for (const int64_t n : kLengths) {
      for (const int64_t rows : {1, 3, 50}) {
        const auto grad = floats(n, rows * n), output = floats(n + 1, rows * n, Kind::kUnit);
        std::vector<float> grad_input(rows * n);
        kernel(grad.data(), output.data(), rows, n, grad_input.data());
        line.add(grad_input);
      }
    }
  });
}

void softmax_columns_backward_line(Report& report, const char* name,
                                   const densecore::Dispatched<densecore::SoftmaxColumnsBackwardFn>& kernel) {
  report.line(name, "float32", [&](Line& line) {
    for (const auto s : kShapes) {
      const auto grad = floats(s.dim, elements(s)), output = floats(s.dim + 1, elements(s), Kind::kUnit);
      std::vector<float> grad_input(grad.size());
      kernel(grad.data(), output.data(), s, grad_input.data());
      line.add(grad_input);
    }
  });
}

void layer_norm(Line& line) {
  for (const int64_t n : kLengths) {
    for (const int64_t m : {1, 5, 33}) {
      const auto x = floats(n, m * n), gamma = floats(n + 1, n), beta = floats(n + 2, n);
      for (const bool affine : {true, false}) {
        std::vector<float> y(m * n), mean(m), rstd(m);
        densecore::layer_norm(x.data(), affine ? gamma.data() : nullptr, affine ? beta.data() : nullptr, m, n, 1e-5f, y.data(), mean.data(),
                              rstd.data());
        line.add(y);
        line.add(mean);
        line.add(rstd);
      }
    }
  }
}

void layer_norm_backward(Line& line) {
  for (const int64_t n : kLengths) {
    for (const int64_t m : {1, 5, 131}) {
      const auto dy = floats(n, m * n), x = floats(n + 1, m * n), gamma = floats(n + 2, n);
      const auto mean = floats(n + 3, m, Kind::kUnit), rstd = floats(n + 4, m, Kind::kNearOne);
      for (const int threads : {1, 2, 3, 4, 8}) {
        std::vector<float> dx(m * n), dgamma(n), dbeta(n);
        densecore::layer_norm_backward(with_threads(threads), dy.data(), x.data(), mean.data(), rstd.data(),
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
  softmax_rows_line(report, "softmax_rows", densecore::softmax_rows);
  softmax_rows_line(report, "safe_softmax_rows", densecore::safe_softmax_rows);
  softmax_rows_line(report, "log_softmax_rows", densecore::log_softmax_rows);
  softmax_columns_line(report, "softmax_columns", densecore::softmax_columns);
  softmax_columns_line(report, "log_softmax_columns", densecore::log_softmax_columns);
  softmax_rows_backward_line(report, "softmax_rows_backward", densecore::softmax_rows_backward);
  softmax_rows_backward_line(report, "log_softmax_rows_backward", densecore::log_softmax_rows_backward);
  softmax_columns_backward_line(report, "softmax_columns_backward", densecore::softmax_columns_backward);
  softmax_columns_backward_line(report, "log_softmax_columns_backward", densecore::log_softmax_columns_backward);
  report.line("layer_norm", "float32", layer_norm);
  report.line("layer_norm_backward", "float32", layer_norm_backward);
}

}  // namespace digest
