// What torch multiplies itself. The compiler of the reference fuses c + a * b where it stands in one expression; the dot products of a
// transposed A call a function for each product, so there every product is rounded.
#include "../lanes.h"
#include "gemm.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int kPartials = 4;  // partial sums of a dot product (ilp_factor)

float rounded_dot(int64_t n, const float* x, const float* y) {
  float sum[kPartials] = {};
  int64_t i = 0;
  for (; i + kPartials <= n; i += kPartials) {
    for (int p = 0; p < kPartials; ++p) sum[p] += x[i + p] * y[i + p];
  }
  for (; i < n; ++i) sum[0] += x[i] * y[i];
  return ((sum[0] + sum[1]) + sum[2]) + sum[3];
}

// A transposed, B not: one dot product an output.
void multiply_rows(const GemmCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      const float scaled = call.alpha * rounded_dot(call.k, call.a + i * call.lda, call.b + j * call.ldb);
      const float* d = call.d + i * call.d_row + j * call.d_column;
      call.c[i + j * call.ldc] = call.beta == 0 ? scaled : fma(call.beta, *d, scaled);
    }
  }
}

// A as it is: columns of A are added to columns of C, one k after the other.
void add_columns(const GemmCall& call) {
  const int64_t b_k = call.transb == 'N' ? 1 : call.ldb, b_column = call.transb == 'N' ? call.ldb : 1;
  for (int64_t j = 0; j < call.n; ++j) {
    float* c = call.c + j * call.ldc;
    for (int64_t i = 0; i < call.m; ++i) {
      const float* d = call.d + i * call.d_row + j * call.d_column;
      c[i] = call.beta == 0 ? 0.0f : call.beta == 1 ? *d : call.beta * *d;
    }
    for (int64_t k = 0; k < call.k; ++k) {
      const float factor = call.b[k * b_k + j * b_column] * call.alpha;
      for (int64_t i = 0; i < call.m; ++i) c[i] = fma(call.a[i + k * call.lda], factor, c[i]);
    }
  }
}

}  // namespace

void gemm_loops(const Profile&, const GemmCall& call) {
  if (call.transa == 'N') add_columns(call);
  else multiply_rows(call);
}

}  // namespace densecore::DENSECORE_ISA
