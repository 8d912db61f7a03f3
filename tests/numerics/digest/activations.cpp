#include "loops.h"
#include "pointwise/activation.h"

namespace digest {
namespace {

constexpr densecore::EluScales kSelu{1.7580993f, 1.0507010f, 1.0f};

void log_sigmoid(Line& line) {
  for (const int64_t n : {0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 1031}) {
    const auto x = floats(n, n, Kind::kMixed);
    std::vector<float> y(n), buffer(n);
    densecore::log_sigmoid_f32(x.data(), y.data(), buffer.data(), n);
    line.add(y);
    line.add(buffer);
  }
}

}  // namespace

void activations(Report& report) {
  DIGEST_LOOP(report, float, elu_backward_f32, 2, kSelu);
  DIGEST_LOOP(report, float, elu_backward_from_output_f32, 2, kSelu);
  DIGEST_LOOP(report, float, elu_f32, 1, kSelu);
  DIGEST_LOOP(report, float, gelu_erf_backward_f32, 2);
  DIGEST_LOOP(report, float, gelu_erf_f32, 1);
  DIGEST_LOOP(report, float, gelu_tanh_backward_f32, 2);
  DIGEST_LOOP(report, float, gelu_tanh_f32, 1);
  DIGEST_LOOP(report, float, glu_f32, 2);
  DIGEST_LOOP(report, float, hardswish_backward_f32, 2);
  DIGEST_LOOP(report, float, hardtanh_backward_f32, 2, -1.0f, 2.0f);
  DIGEST_LOOP(report, float, logit_f32, 1, 1e-6f, 1 - 1e-6f);
  DIGEST_LOOP(report, float, mish_backward_f32, 2);
  DIGEST_LOOP(report, float, mish_f32, 1);
  DIGEST_LOOP(report, float, shrink_backward_f32, 2, 0.5f);
  DIGEST_LOOP(report, float, silu_backward_f32, 2);
  DIGEST_LOOP(report, float, silu_f32, 1);
  DIGEST_LOOP(report, float, softplus_backward_f32, 2, 1.0f, 20.0f);
  DIGEST_LOOP(report, float, softplus_f32, 1, 1.0f, 20.0f);
  DIGEST_LOOP(report, float, softshrink_f32, 1, 0.5f);
  DIGEST_LOOP(report, float, tanh_backward_f32, 2);
  report.line("log_sigmoid_f32", "float32", log_sigmoid);
}

}  // namespace digest
