// ATen's native/cpu/Activation.cpp. The compiler of the reference fuses a * b + c in the scalar lambdas (loop tails and strided operands),
// never across the operators of its vector class; so most functions are written twice.
#include "activation.h"

#include "../math/erf.h"
#include "../math/exp.h"
#include "../math/hyperbolic.h"
#include "../math/libm.h"
#include "../math/log.h"
#include "vectorized_loop.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr float kSqrtHalf = 0x1.6a09e6p-1f;
constexpr float kSqrtTwoOverPi = 0x1.988454p-1f;
constexpr float kInvSqrtTwoPi = 0x1.988454p-2f;  // M_2_SQRTPI * M_SQRT1_2 / 2
constexpr float kKappa = 0.044715f;

template <class V>
DENSECORE_INLINE V sigmoid_of(V x) {
  return 1.0f / (1.0f + exp_u10(-x));
}
DENSECORE_INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + libm::expf(-x)); }

template <class V>
DENSECORE_INLINE V softplus_tanh(V x) {
  return tanh_u10(log1p_u10(exp_u10(x)));
}
DENSECORE_INLINE float softplus_tanh(float x) { return libm::tanhf(libm::log1pf(libm::expf(x))); }

}  // namespace

// ---- gelu --------------------------------------------------------------------------------------------------------------------

void gelu_erf_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return x * 0.5f * (1.0f + erf(x * kSqrtHalf)); },
      [](float x) { return x * 0.5f * (1.0f + libm::erff(x * kSqrtHalf)); });
}

void gelu_erf_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile,
      [](auto dy, auto x) {
        const auto cdf = 0.5f * (1.0f + erf(x * kSqrtHalf));
        const auto pdf = kInvSqrtTwoPi * exp_u10(x * x * -0.5f);
        return dy * (cdf + x * pdf);
      },
      [](float dy, float x) {
        const float cdf = 0.5f * (1.0f + libm::erff(x * kSqrtHalf));
        const float pdf = kInvSqrtTwoPi * libm::expf(x * x * -0.5f);
        return dy * fma(x, pdf, cdf);
      });
}

void gelu_tanh_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile,
      [](auto x) {
        const auto inner = kSqrtTwoOverPi * (x + kKappa * (x * x * x));
        return 0.5f * x * (1.0f + tanh_u10(inner));
      },
      [](float x) {
        const float inner = kSqrtTwoOverPi * fma(kKappa, x * x * x, x);
        return 0.5f * x * (1.0f + libm::tanhf(inner));
      });
}

void gelu_tanh_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile,
      [](auto dy, auto x) {
        const auto t = tanh_u10(kSqrtTwoOverPi * (x + kKappa * (x * x * x)));
        const auto inner_derivative = kSqrtTwoOverPi * (1.0f + 3.0f * kKappa * (x * x));
        const auto right_derivative = 0.5f * x * (1.0f - t * t) * inner_derivative;
        return dy * (0.5f * (1.0f + t) + right_derivative);
      },
      [](float dy, float x) {
        const float t = libm::tanhf(kSqrtTwoOverPi * fma(kKappa, x * x * x, x));
        const float inner_derivative = kSqrtTwoOverPi * fma(3.0f * kKappa, x * x, 1.0f);
        const float right_derivative = 0.5f * x * fma(-t, t, 1.0f) * inner_derivative;
        return dy * (0.5f * (1.0f + t) + right_derivative);
      });
}

// ---- silu, mish, glu, tanh ---------------------------------------------------------------------------------------------------

void silu_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(
      loop, profile, [](auto x) { return x / (1.0f + exp_u10(-x)); }, [](float x) { return x / (1.0f + libm::expf(-x)); });
}

void silu_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile,
      [](auto dy, auto x) {
        const auto sigmoid = sigmoid_of(x);
        return dy * sigmoid * (1.0f + x * (1.0f - sigmoid));
      },
      [](float dy, float x) {
        const float sigmoid = sigmoid_of(x);
        return dy * sigmoid * fma(x, 1.0f - sigmoid, 1.0f);
      });
}

void mish_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 1>(loop, profile, [](auto x) { return x * softplus_tanh(x); });
}

void mish_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile,
      [](auto dy, auto x) {
        const auto t = softplus_tanh(x);
        return dy * (t + x * sigmoid_of(x) * (1.0f - t * t));
      },
      [](float dy, float x) {
        const float t = softplus_tanh(x);
        return dy * fma(x * sigmoid_of(x), fma(-t, t, 1.0f), t);
      });
}

void glu_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(loop, profile, [](auto a, auto b) { return a * sigmoid_of(b); });
}

void tanh_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile, [](auto dy, auto y) { return dy * (1.0f - y * y); },
      [](float dy, float y) { return dy * fma(-y, y, 1.0f); });
}

// ---- softplus, log_sigmoid, logit --------------------------------------------------------------------------------------------

void softplus_f32(const Loop2d& loop, const Profile& profile, float beta, float threshold) {
  vectorized_loop<float, 1>(
      loop, profile, [=](auto x) { return select(x * beta > threshold, x, log1p_u10(exp_u10(x * beta)) / beta); },
      [=](float x) { return x * beta > threshold ? x : libm::log1pf(libm::expf(x * beta)) / beta; });
}

void softplus_backward_f32(const Loop2d& loop, const Profile& profile, float beta, float threshold) {
  vectorized_loop<float, 2>(
      loop, profile,
      [=](auto dy, auto x) {
        const auto z = exp_u10(x * beta);
        return select(x * beta > threshold, dy, dy * z / (z + 1.0f));
      },
      [=](float dy, float x) {
        const float z = libm::expf(x * beta);
        return x * beta > threshold ? dy : dy * z / (z + 1.0f);
      });
}

void log_sigmoid_f32(const float* input, float* output, float* buffer, int64_t n) {
  using V = F32<kWidth>;
  const auto step = [](V x, V& e) {
    e = exp_u10(-abs(x));
    return min_arm(x, V{}) - log1p_u10(e);
  };
  int64_t i = 0;
  V e;
  for (; i + kWidth <= n; i += kWidth) {
    store(output + i, step(load<V>(input + i), e));
    store(buffer + i, e);
  }
  if (i == n) return;
  store_partial(output + i, step(load_partial<V>(input + i, n - i), e), n - i);
  store_partial(buffer + i, e, n - i);
}

void logit_f32(const Loop2d& loop, const Profile& profile, float low, float high) {
  const bool clamped = !(low < 0);
  vectorized_loop<float, 1>(
      loop, profile,
      [=](auto x) {
        using V = decltype(x);
        if (clamped) x = min_arm(splat<V>(high), max_arm(splat<V>(low), x));
        return log_u10(x / (1.0f - x));
      },
      [=](float x) {
        if (clamped) x = x < low ? low : (x > high ? high : x);
        return x == 1.0f ? __builtin_inff() : libm::logf(x / (1.0f - x));
      });
}

// ---- elu ---------------------------------------------------------------------------------------------------------------------

void elu_f32(const Loop2d& loop, const Profile& profile, EluScales scales) {
  vectorized_loop<float, 1>(
      loop, profile,
      [=](auto x) { return select(x > 0.0f, x * scales.positive, expm1_u10(x * scales.input) * scales.negative); },
      [=](float x) { return x <= 0 ? libm::expm1f(x * scales.input) * scales.negative : x * scales.positive; });
}

void elu_backward_f32(const Loop2d& loop, const Profile& profile, EluScales scales) {
  vectorized_loop<float, 2>(
      loop, profile,
      [=](auto dy, auto x) {
        const auto below = dy * scales.input * scales.negative * exp_u10(x * scales.input);
        return select(x > 0.0f, dy * scales.positive, below);
      },
      [=](float dy, float x) {
        return x <= 0 ? dy * scales.input * scales.negative * libm::expf(x * scales.input) : dy * scales.positive;
      });
}

void elu_backward_from_output_f32(const Loop2d& loop, const Profile& profile, EluScales scales) {
  vectorized_loop<float, 2>(
      loop, profile,
      [=](auto dy, auto y) { return select(y > 0.0f, dy * scales.positive, dy * scales.input * (y + scales.negative)); },
      [=](float dy, float y) { return y <= 0 ? dy * scales.input * (y + scales.negative) : dy * scales.positive; });
}

// ---- piecewise linear: vector and scalar code differ for NaN and in the sign of zeros -------------------------------------------

void softshrink_f32(const Loop2d& loop, const Profile& profile, float lambda) {
  vectorized_loop<float, 1>(
      loop, profile,
      [=](auto x) {
        const auto inside = select(is_nan(x), x, decltype(x){});
        return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, inside));
      },
      [=](float x) { return x > lambda ? x - lambda : x < -lambda ? x + lambda : x * 0.0f; });
}

void shrink_backward_f32(const Loop2d& loop, const Profile& profile, float lambda) {
  vectorized_loop<float, 2>(
      loop, profile, [=](auto dy, auto x) { return select((x < -lambda) | (x > lambda), dy, decltype(x){}); },
      [=](float dy, float x) { return x >= -lambda && x <= lambda ? 0.0f : dy; });
}

void hardtanh_backward_f32(const Loop2d& loop, const Profile& profile, float low, float high) {
  vectorized_loop<float, 2>(
      loop, profile, [=](auto dy, auto x) { return select((x > low) & (x < high), dy, decltype(x){}); },
      [=](float dy, float x) { return x <= low || x >= high ? 0.0f : dy; });
}

void hardswish_backward_f32(const Loop2d& loop, const Profile& profile) {
  vectorized_loop<float, 2>(
      loop, profile,
      [](auto dy, auto x) {
        const auto slope = dy * (x / 3.0f + 0.5f);
        return select(x <= -3.0f, decltype(x){}, select(x >= 3.0f, dy, slope));
      },
      [](float dy, float x) { return x <= -3.0f ? 0.0f : x < 3.0f ? dy * (x / 3.0f + 0.5f) : dy; });
}

}  // namespace densecore::DENSECORE_ISA
