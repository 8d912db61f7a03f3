// Softmax over a dimension that is not the last: columns are independent. The reference takes 4 columns at a time with its vector
// exp (SLEEF); the columns left over go one by one through libm's expf, and there a product and a sum are fused.
#include <algorithm>

#include "../math/exp.h"
#include "../math/libm.h"
#include "../math/log.h"
#include "../parallel.h"
#include "../reduce/row_groups.h"
#include "SoftMaxKernel.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int64_t kVector = 4;  // Vectorized<float>::size()

// A column block, or one column, of an (outer, dim, inner) array: element d is `stride` after element d - 1.
struct Column {
  int64_t offset;
  int64_t dim;
  int64_t stride;
};

// f(d) for d = 0 ... dim - 1, with the element's offset.
template <class F>
DENSECORE_INLINE void each_element(Column c, F f) {
  for (int64_t d = 0, at = c.offset; d < c.dim; ++d, at += c.stride) f(at);
}

// Columns [first, first + count) of one outer index; the whole vectors of 4 through wide(column, where), the rest through
// narrow(column).
template <class Wide, class Narrow>
DENSECORE_INLINE void split_columns(int64_t outer, SoftmaxShape s, int64_t first, int64_t count, Wide wide, Narrow narrow) {
  const int64_t in_vectors = count / kVector * kVector;
  const int64_t base = outer * s.dim * s.inner + first;
  each_column_vector(in_vectors, [&](auto where) { wide(Column{base, s.dim, s.inner}, where); });
  for (int64_t j = in_vectors; j < count; ++j) narrow(Column{base + j, s.dim, s.inner});
}

template <class Wide, class Narrow>
void each_outer(SoftmaxShape s, Wide wide, Narrow narrow) {
  const int64_t per_task = std::max<int64_t>(1, kGrainSize / (4 * s.dim * s.inner));
  parallel_run(divup(s.outer, per_task), [&](int64_t task) {
    const int64_t end = std::min(s.outer, (task + 1) * per_task);
    for (int64_t o = task * per_task; o < end; ++o) split_columns(o, s, 0, s.inner, wide, narrow);
  });
}

template <class Where>
DENSECORE_INLINE RowVector column_maximum(const float* x, Column c, Where where) {
  RowVector maximum = splat<RowVector>(-__builtin_inff());
  each_element(c, [&](int64_t at) {
    const RowVector v = where.load(x + at);
    maximum = select(v > maximum, v, maximum);
  });
  return maximum;
}
DENSECORE_INLINE float column_maximum(const float* x, Column c) {
  float maximum = x[c.offset];
  each_element(c, [&](int64_t at) { maximum = maximum < x[at] ? x[at] : maximum; });
  return maximum;
}

}  // namespace

void softmax_columns(const Profile& profile, const float* x, SoftmaxShape s, float* y) {
  const auto wide = [&](Column c, auto where) {
    const RowVector maximum = column_maximum(x, c, where);
    RowVector sum = {};
    each_element(c, [&](int64_t at) {
      const RowVector e = exp_u10(where.load(x + at) - maximum);
      where.store(y + at, e);
      sum = sum + e;
    });
    each_element(c, [&](int64_t at) { where.store(y + at, where.load(y + at) / sum); });
  };
  const auto narrow = [&](Column c) {
    const float maximum = column_maximum(x, c);
    float sum = 0.0f;
    each_element(c, [&](int64_t at) { sum += y[at] = libm::expf(x[at] - maximum); });
    each_element(c, [&](int64_t at) { y[at] /= sum; });
  };
  // A chunk may begin inside a row of columns; its vectors start there.
  const int64_t grain = std::min<int64_t>(kGrainSize / s.dim, 1);
  parallel_for(profile, 0, s.outer * s.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t outer = i / s.inner, first = i % s.inner;
      const int64_t count = std::min(s.inner - first, end - i);
      split_columns(outer, s, first, count, wide, narrow);
      i += count;
    }
  });
}

void log_softmax_columns(const Profile&, const float* x, SoftmaxShape s, float* y) {
  const auto wide = [&](Column c, auto where) {
    const RowVector maximum = column_maximum(x, c, where);
    RowVector sum = {};
    each_element(c, [&](int64_t at) { sum = sum + exp_u10(where.load(x + at) - maximum); });
    const RowVector log_sum = log_u10(sum);
    each_element(c, [&](int64_t at) { where.store(y + at, where.load(x + at) - maximum - log_sum); });
  };
  const auto narrow = [&](Column c) {
    const float maximum = column_maximum(x, c);
    float sum = 0.0f;
    each_element(c, [&](int64_t at) { sum += libm::expf(x[at] - maximum); });
    const float log_sum = log_u10(F32<4>{sum})[0];
    each_element(c, [&](int64_t at) { y[at] = x[at] - maximum - log_sum; });
  };
  each_outer(s, wide, narrow);
}

void softmax_columns_backward(const float* grad, const float* output, SoftmaxShape s, float* grad_input) {
  const auto wide = [&](Column c, auto where) {
    RowVector sum = {};
    each_element(c, [&](int64_t at) { sum = sum + where.load(grad + at) * where.load(output + at); });
    each_element(c, [&](int64_t at) { where.store(grad_input + at, where.load(output + at) * (where.load(grad + at) - sum)); });
  };
  const auto narrow = [&](Column c) {
    float sum = 0.0f;
    each_element(c, [&](int64_t at) { sum = fma(grad[at], output[at], sum); });
    each_element(c, [&](int64_t at) { grad_input[at] = output[at] * (grad[at] - sum); });
  };
  each_outer(s, wide, narrow);
}

void log_softmax_columns_backward(const float* grad, const float* output, SoftmaxShape s, float* grad_input) {
  const auto wide = [&](Column c, auto where) {
    RowVector sum = {};
    each_element(c, [&](int64_t at) { sum = sum + where.load(grad + at); });
    each_element(c, [&](int64_t at) {
      where.store(grad_input + at, where.load(grad + at) - exp_u10(where.load(output + at)) * sum);
    });
  };
  const auto narrow = [&](Column c) {
    float sum = 0.0f;
    each_element(c, [&](int64_t at) { sum += grad[at]; });
    each_element(c, [&](int64_t at) { grad_input[at] = fma(-libm::expf(output[at]), sum, grad[at]); });
  };
  each_outer(s, wide, narrow);
}

}  // namespace densecore::DENSECORE_ISA
