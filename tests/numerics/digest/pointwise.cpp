#include "loops.h"
#include "blas/addr.h"
#include "pointwise/binary_ops.h"
#include "pointwise/convert.h"
#include "pointwise/min_max.h"
#include "pointwise/pow.h"
#include "pointwise/range_factories.h"
#include "pointwise/unary.h"

namespace digest {
namespace {

void unary(Report& report) {
  DIGEST_LOOP(report, float, acos_f32, 1);
  DIGEST_LOOP(report, float, acosh_f32, 1);
  DIGEST_LOOP(report, float, asin_f32, 1);
  DIGEST_LOOP(report, float, asinh_f32, 1);
  DIGEST_LOOP(report, float, atan_f32, 1);
  DIGEST_LOOP(report, float, atanh_f32, 1);
  DIGEST_LOOP(report, float, cos_f32, 1);
  DIGEST_LOOP(report, float, cosh_f32, 1);
  DIGEST_LOOP(report, float, erf_f32, 1);
  DIGEST_LOOP(report, float, erfc_f32, 1);
  DIGEST_LOOP(report, float, exp2_f32, 1);
  DIGEST_LOOP(report, float, exp_f32, 1);
  DIGEST_LOOP(report, float, expm1_f32, 1);
  DIGEST_LOOP(report, float, log10_f32, 1);
  DIGEST_LOOP(report, float, log1p_f32, 1);
  DIGEST_LOOP(report, float, log2_f32, 1);
  DIGEST_LOOP(report, float, log_f32, 1);
  DIGEST_LOOP(report, float, sigmoid_f32, 1);
  DIGEST_LOOP(report, float, sin_f32, 1);
  DIGEST_LOOP(report, float, sinc_f32, 1);
  DIGEST_LOOP(report, float, sinh_f32, 1);
  DIGEST_LOOP(report, float, sqrt_f32, 1);
  DIGEST_LOOP(report, float, tan_f32, 1);
  DIGEST_LOOP(report, float, tanh_f32, 1);
}

void binary(Report& report) {
  DIGEST_LOOP(report, float, add_f32, 2, 0.3f);
  DIGEST_LOOP(report, double, add_f64, 2, 0.3);
  DIGEST_LOOP(report, float, addcdiv_f32, 3, -0.7f);
  DIGEST_LOOP(report, double, addcdiv_f64, 3, -0.7);
  DIGEST_LOOP(report, float, addcmul_f32, 3, 0.3f);
  DIGEST_LOOP(report, double, addcmul_f64, 3, 0.3);
  DIGEST_LOOP(report, float, addr_f32, 3, 0.3f, 0.7f);
  DIGEST_LOOP(report, float, lerp_scalar_f32, 2, 0.3f);
  DIGEST_LOOP(report, double, lerp_scalar_f64, 2, 0.7);
  DIGEST_LOOP(report, float, lerp_tensor_f32, 3);
  DIGEST_LOOP(report, double, lerp_tensor_f64, 3);
  DIGEST_LOOP(report, float, pow_f32, 2);
  report.line("pow_scalar_f32", "float32", [](Line& line) {
    for (const double exponent : {0.5, 2.0, 3.0, -0.5, -1.0, -2.0, 0.0, 1.0, 1.7, -3.0}) {
      run_loops<float>(line, 1, [=](const densecore::Loop2d& loop, const densecore::Profile& p) {
        densecore::pow_scalar_f32(loop, p, exponent);
      });
    }
  });
}

void min_max(Report& report) {
  DIGEST_LOOP(report, float, clamp_f32, 3);
  DIGEST_LOOP(report, double, clamp_f64, 3);
  DIGEST_LOOP(report, float, clamp_max_f32, 2);
  DIGEST_LOOP(report, double, clamp_max_f64, 2);
  DIGEST_LOOP(report, float, clamp_max_scalar_f32, 1, -0.0f);
  DIGEST_LOOP(report, double, clamp_max_scalar_f64, 1, 0.5);
  DIGEST_LOOP(report, float, clamp_min_f32, 2);
  DIGEST_LOOP(report, double, clamp_min_f64, 2);
  DIGEST_LOOP(report, float, clamp_min_scalar_f32, 1, 0.0f);
  DIGEST_LOOP(report, double, clamp_min_scalar_f64, 1, -0.5);
  DIGEST_LOOP(report, float, clamp_scalar_f32, 1, -1.0f, 0.5f);
  DIGEST_LOOP(report, double, clamp_scalar_f64, 1, -1.0, 0.0);
  DIGEST_LOOP(report, float, fmax_f32, 2);
  DIGEST_LOOP(report, double, fmax_f64, 2);
  DIGEST_LOOP(report, float, fmin_f32, 2);
  DIGEST_LOOP(report, double, fmin_f64, 2);
  DIGEST_LOOP(report, float, maximum_f32, 2);
  DIGEST_LOOP(report, double, maximum_f64, 2);
  DIGEST_LOOP(report, float, minimum_f32, 2);
  DIGEST_LOOP(report, double, minimum_f64, 2);
}

template <class From, class To>
void convert_line(Report& report, const char* name, const densecore::Dispatched<densecore::ConvertFn>& kernel, densecore::IntegerType to,
                  const char* variant) {
  report.line(name, variant, [&](Line& line) {
    run_loops<From, To>(line, 1, [&](const densecore::Loop2d& loop, const densecore::Profile&) { kernel(loop, to); });
  });
}

template <class From>
void convert(Report& report, const char* name, const densecore::Dispatched<densecore::ConvertFn>& kernel) {
  using densecore::IntegerType;
  convert_line<From, uint8_t>(report, name, kernel, IntegerType::kU8, "uint8");
  convert_line<From, int8_t>(report, name, kernel, IntegerType::kI8, "int8");
  convert_line<From, int16_t>(report, name, kernel, IntegerType::kI16, "int16");
  convert_line<From, int32_t>(report, name, kernel, IntegerType::kI32, "int32");
  convert_line<From, int64_t>(report, name, kernel, IntegerType::kI64, "int64");
}

void ranges(Report& report) {
  report.line("arange_f32", "float32", [](Line& line) {
    for (const int64_t size : {0, 1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1000, 4097}) {
      for (const double step : {1.0, 0.1, -0.7, 1.0 / 3, 1e-3, 123456.789}) {
        for (const int64_t index : {0, 5, 32768, 40001}) {
          std::vector<float> y(size);
          densecore::arange_f32(0.37, step, index, y.data(), size);
          line.add(y);
        }
      }
    }
  });
}

}  // namespace

void pointwise(Report& report) {
  unary(report);
  binary(report);
  min_max(report);
  convert<float>(report, "convert_f32", densecore::convert_f32);
  convert<double>(report, "convert_f64", densecore::convert_f64);
  ranges(report);
}

}  // namespace digest
