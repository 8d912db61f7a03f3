// Distributions that draw one value at a time and compute in double, whatever the tensor's dtype (ATen/core/DistributionsHelper.h,
// TransformationHelper.h). Which sums are fused was read from the wheel's results.
#include <cmath>

#include "../libm_double.h"
#include "mt19937.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr double kPi = 0x1.921fb54442d18p+1;

double draw_normal(RandomState& state, double mean, double std) {
  if (state.has_normal) {
    state.has_normal = false;
    return fma(state.normal, std, mean);
  }
  const double u1 = draw_unit_double(state), u2 = draw_unit_double(state);
  const double radius = sqrt(-2.0 * libm_model::log1p(-u2));
  const libm_model::SinCos angle = libm_model::sincos(2.0 * kPi * u1);
  state.normal = radius * angle.sin;
  state.has_normal = true;
  return fma(radius * angle.cos, std, mean);
}

}  // namespace

void normal_serial(RandomState& state, double mean, double std, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = draw_normal(state, mean, std);
}

void log_normal_serial(RandomState& state, double mean, double std, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = libm_model::exp(draw_normal(state, mean, std));
}

void cauchy_serial(RandomState& state, double median, double sigma, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = fma(sigma, libm_model::tan(kPi * (draw_unit_double(state) - 0.5)), median);
  }
}

void geometric_serial(RandomState& state, double p, double* y, int64_t n) {
  const double log_failure = libm_model::log1p(-p);
  for (int64_t i = 0; i < n; ++i) y[i] = std::ceil(libm_model::log(draw_unit_double(state)) / log_failure);
}

void exponential_f64(RandomState& state, double lambda, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = -1.0 / lambda * libm_model::log1p(-draw_unit_double(state));
}

}  // namespace densecore::DENSECORE_ISA
