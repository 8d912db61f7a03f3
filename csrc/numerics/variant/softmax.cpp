// ATen/native/cpu/SoftMaxKernel.cpp and LogSoftmaxKernelImpl.h, row by row and column by column. softmax/softmax_rows.cpp and
// softmax_columns.cpp say what the reference does where.
#include "softmax.h"

#include <algorithm>

#include "../parallel.h"
#include "arithmetic.h"

namespace densecore::variant {
namespace {

constexpr auto kPlus = [](const auto& value) { return [&value](float sum, int64_t i) { return sum + value(i); }; };

template <class F>
void each_row(int64_t rows, const F& f) {
  parallel_run(rows, [&](int64_t i) { f(i); });
}

float row_maximum(const float* x, int64_t n) {
  float maximum = x[0];
  for (int64_t i = 1; i < n; ++i) maximum = x[i] > maximum ? x[i] : maximum;
  return maximum;
}

// One column of an (outer, dim, inner) array. `whole`: it is computed in a vector; the columns that fill none are scalar code.
struct Column {
  int64_t offset;
  int64_t dim;
  int64_t stride;
  bool whole;

  template <class F>
  void each(const F& f) const {
    for (int64_t d = 0; d < dim; ++d) f(offset + d * stride);
  }
  float maximum(const float* x) const {
    float maximum = x[offset];
    each([&](int64_t at) { maximum = x[at] > maximum ? x[at] : maximum; });
    return maximum;
  }
};

// Columns [first, first + count) of one outer index: the last count % lanes fill no vector.
template <class F>
void each_column(const Profile& profile, SoftmaxShape s, int64_t outer, int64_t first, int64_t count, const F& f) {
  const int64_t in_vectors = count / profile.lanes * profile.lanes;
  for (int64_t j = 0; j < count; ++j) f(Column{outer * s.dim * s.inner + first + j, s.dim, s.inner, j < in_vectors});
}

template <class F>
void each_outer(const Profile& profile, SoftmaxShape s, const F& f) {
  parallel_run(s.outer, [&](int64_t outer) { each_column(profile, s, outer, 0, s.inner, f); });
}

float exp_in(const Profile& profile, const Column& c, float x) {
  return c.whole ? exp_vector(profile, x) : exp_scalar(profile, x);
}
bool fuses(const Profile& profile, const Column& c) { return c.whole ? profile.fuses_vector() : profile.fuses_scalar(); }

}  // namespace

void softmax_rows(const Profile& profile, const float* x, int64_t rows, int64_t n, float* y) {
  each_row(rows, [&](int64_t r) {
    const float maximum = row_maximum(x + r * n, n);
    float* out = y + r * n;
    for (int64_t i = 0; i < n; ++i) out[i] = exp_vector(profile, x[r * n + i] - maximum);
    const auto value = [&](int64_t i) { return out[i]; };
    const float factor = 1.0f / reduce_row(profile, n, value, kPlus(value));
    for (int64_t i = 0; i < n; ++i) out[i] *= factor;
  });
}

void log_softmax_rows(const Profile& profile, const float* x, int64_t rows, int64_t n, float* y) {
  each_row(rows, [&](int64_t r) {
    const float* in = x + r * n;
    const float maximum = row_maximum(in, n);
    const auto value = [&](int64_t i) { return exp_vector(profile, in[i] - maximum); };
    const float log_sum = log_vector(reduce_row(profile, n, value, kPlus(value)));
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = in[i] - maximum - log_sum;
  });
}

void softmax_rows_backward(const Profile& profile, const float* grad, const float* output, int64_t rows, int64_t n, float* grad_input) {
  each_row(rows, [&](int64_t r) {
    const float *g = grad + r * n, *y = output + r * n;
    // GCC fuses the step of the last, partial vector alone.
    const int64_t partial = profile.fuses_vector() ? n / profile.lanes * profile.lanes : n;
    const float sum = reduce_row(profile, n, [&](int64_t i) { return g[i] * y[i]; },
                                 [&](float s, int64_t i) { return multiply_add(i >= partial, g[i], y[i], s); });
    for (int64_t i = 0; i < n; ++i) grad_input[r * n + i] = (g[i] - sum) * y[i];
  });
}

void log_softmax_rows_backward(const Profile& profile, const float* grad, const float* output, int64_t rows, int64_t n,
                               float* grad_input) {
  each_row(rows, [&](int64_t r) {
    const float *g = grad + r * n, *y = output + r * n;
    const auto value = [&](int64_t i) { return g[i]; };
    const float sum = reduce_row(profile, n, value, kPlus(value));
    for (int64_t i = 0; i < n; ++i) {
      grad_input[r * n + i] = multiply_add(profile.fuses_vector(), -exp_vector(profile, y[i]), sum, g[i]);
    }
  });
}

void softmax_columns(const Profile& profile, const float* x, SoftmaxShape s, float* y) {
  const auto column = [&](const Column& c) {
    const float maximum = c.maximum(x);
    float sum = 0.0f;
    c.each([&](int64_t at) { sum += y[at] = exp_in(profile, c, x[at] - maximum); });
    c.each([&](int64_t at) { y[at] /= sum; });
  };
  // A chunk may begin inside a row of columns; its vectors start there.
  const int64_t grain = std::min<int64_t>(kGrainSize / s.dim, 1);
  parallel_for(profile, 0, s.outer * s.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t first = i % s.inner, count = std::min(s.inner - first, end - i);
      each_column(profile, s, i / s.inner, first, count, column);
      i += count;
    }
  });
}

void log_softmax_columns(const Profile& profile, const float* x, SoftmaxShape s, float* y) {
  each_outer(profile, s, [&](const Column& c) {
    const float maximum = c.maximum(x);
    float sum = 0.0f;
    c.each([&](int64_t at) { sum += exp_in(profile, c, x[at] - maximum); });
    const float log_sum = log_vector(sum);
    c.each([&](int64_t at) { y[at] = x[at] - maximum - log_sum; });
  });
}

void softmax_columns_backward(const Profile& profile, const float* grad, const float* output, SoftmaxShape s, float* grad_input) {
  each_outer(profile, s, [&](const Column& c) {
    float sum = 0.0f;
    c.each([&](int64_t at) { sum = multiply_add(fuses(profile, c), grad[at], output[at], sum); });
    c.each([&](int64_t at) { grad_input[at] = output[at] * (grad[at] - sum); });
  });
}

void log_softmax_columns_backward(const Profile& profile, const float* grad, const float* output, SoftmaxShape s,
                                  float* grad_input) {
  each_outer(profile, s, [&](const Column& c) {
    float sum = 0.0f;
    c.each([&](int64_t at) { sum += grad[at]; });
    c.each([&](int64_t at) { grad_input[at] = multiply_add(fuses(profile, c), -exp_in(profile, c, output[at]), sum, grad[at]); });
  });
}

}  // namespace densecore::variant
