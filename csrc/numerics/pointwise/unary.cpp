// Which elements are computed by vector code and which by libm is ATen's choice, op by op: native/cpu/UnaryOpsKernel.cpp.
#include "unary.h"

#include "../math/erf.h"
#include "../math/erfc.h"
#include "../math/exp.h"
#include "../math/hyperbolic.h"
#include "../math/inverse_trigonometric.h"
#include "../math/libm.h"
#include "../math/log.h"
#include "../math/trigonometric.h"
#include "vectorized_loop.h"
#include "vml_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

template <class Op>
DENSECORE_INLINE void scalar_loop(const Loop2d& loop, const Op& op) {
  for (int64_t row = 0; row < loop.outer; ++row) {
    char* const data[] = {loop.data[0] + row * loop.strides[2], loop.data[1] + row * loop.strides[3]};
    detail::strided_row<float>(data, loop.strides, loop.inner, op, std::make_index_sequence<1>{});
  }
}

}  // namespace

void acos_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return acos_u10(x); });
}
void asin_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return asin_u10(x); });
}
void atan_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return atan_u10(x); });
}
void cos_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return cos_u10(x); });
}
void erf_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return erf(x); });
}
void erfc_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return erfc_u15(x); });
}
void exp_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return exp_u10(x); });
}
void expm1_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return expm1_u10(x); });
}
void log_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return log_u10(x); });
}
void log10_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return log10_u10(x); });
}
void log1p_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return log1p_u10(x); });
}
void log2_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return log2_u10(x); });
}
void sin_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return sin_u10(x); });
}
void sqrt_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return sqrt(x); });
}
void tan_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return tan_u10(x); });
}
void tanh_f32(const Loop2d& loop, const Profile&) {
  vml_loop(loop, [](auto x) { return tanh_u10(x); });
}

void atanh_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return atanh_u10(x); }, [](float x) { return libm::atanhf(x); });
}
void cosh_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return cosh_u10(x); }, [](float x) { return libm::coshf(x); });
}
void exp2_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return exp2_u10(x); }, [](float x) { return libm::exp2f(x); });
}
void sigmoid_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return 1.0f / (1.0f + exp_u10(0.0f - x)); },
      [](float x) { return 1.0f / (1.0f + libm::expf(-x)); });
}
void sinh_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return sinh_u10(x); }, [](float x) { return libm::sinhf(x); });
}

void acosh_f32(const Loop2d& loop, const Profile&) {
  scalar_loop(loop, [](float x) { return libm::acoshf(x); });
}
void asinh_f32(const Loop2d& loop, const Profile&) {
  scalar_loop(loop, [](float x) { return libm::asinhf(x); });
}
void sinc_f32(const Loop2d& loop, const Profile&) {
  scalar_loop(loop, [](float x) {
    if (x == 0.0f) return 1.0f;
    const float product = 0x1.921fb6p+1f * x;
    return libm::sinf(product) / product;
  });
}

}  // namespace densecore::DENSECORE_ISA
