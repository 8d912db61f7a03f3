// normal_ of contiguous tensors with 16 or more values: uniform numbers are drawn into the output and each block of 16 becomes eight
// Box-Muller pairs (x[j], x[j + 8]); an incomplete last block is redrawn as the last 16 values
// (ATen/native/cpu/DistributionTemplates.h, the scalar NormalFill16: on NEON there is no vector one).
//
// Float: logf, sinf and cosf are modelled as correctly rounded. Their arguments are 1 - k / 2^24 and float(2 pi k / 2^24), few
// enough that the double approximations below were checked on all of them to round as the exact values do.
#include "../libm_double.h"
#include "double_log.h"
#include "mt19937.h"

namespace densecore::DENSECORE_ISA {
namespace {

constexpr int kPairs = 8;
constexpr int kBlock = 2 * kPairs;

template <class D>
struct SinCosOf {
  D sin;
  D cos;
};

// Of 0 <= x < 6.3, to about 2^-51: quarter turns by a two-part pi/2, then Taylor polynomials on [-pi/4, pi/4].
template <class D>
DENSECORE_INLINE SinCosOf<D> sincos_approx(D x) {
  constexpr double kShift = 0x1.8p52;
  const D shifted = x * 0x1.45f306dc9c883p-1 + kShift;
  const D n = shifted - kShift;
  const D r = (x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
  const D r2 = r * r;
  D s = splat<D>(-0x1.ae7f3e733b81fp-41);
  for (double c : {0x1.6124613a86d09p-33, -0x1.ae64567f544e4p-26, 0x1.71de3a556c734p-19, -0x1.a01a01a01a01ap-13, 0x1.1111111111111p-7, -0x1.5555555555555p-3}) {
    s = s * r2 + c;
  }
  s = r + r * (r2 * s);
  D c = splat<D>(0x1.ae7f3e733b81fp-45);
  for (double k : {-0x1.93974a8c07c9dp-37, 0x1.1eed8eff8d898p-29, -0x1.27e4fb7789f5cp-22, 0x1.a01a01a01a01ap-16, -0x1.6c16c16c16c17p-10, 0x1.5555555555555p-5, -0.5}) {
    c = c * r2 + k;
  }
  c = 1.0 + r2 * c;
  const mask_type<D> quarter = bit_cast<mask_type<D>>(shifted);
  const mask_type<D> odd = -(quarter & 1), minus_sin = (quarter & 2) << 62, minus_cos = ((quarter + 1) & 2) << 62;
  const D sine = select(odd, c, s), cosine = select(odd, s, c);
  return {bit_cast<D>(bit_cast<mask_type<D>>(sine) ^ minus_sin), bit_cast<D>(bit_cast<mask_type<D>>(cosine) ^ minus_cos)};
}

struct Scale {
  float mean;
  float std;
};

void box_muller(float* y, Scale scale) {
  constexpr int N = std::max(4, kWidth / 2);
  using D = F64<N>;
  using V = F32<N>;
  constexpr double kTwoPi = 0x1.921fb54442d18p+2;
  for (int j = 0; j < kPairs; j += N) {
    const V u1 = 1.0f - load<V>(y + j), u2 = load<V>(y + j + kPairs);
    const V log_u1 = __builtin_convertvector(log_approx(__builtin_convertvector(u1, D)), V);
    const V theta = __builtin_convertvector(kTwoPi * __builtin_convertvector(u2, D), V);
    const SinCosOf<D> angle = sincos_approx(__builtin_convertvector(theta, D));
    const V radius = sqrt(-2.0f * log_u1);
    const V x1 = radius * __builtin_convertvector(angle.cos, V), x2 = radius * __builtin_convertvector(angle.sin, V);
    store(y + j, fma(x1, splat<V>(scale.std), splat<V>(scale.mean)));
    store(y + j + kPairs, fma(x2, splat<V>(scale.std), splat<V>(scale.mean)));
  }
}

void box_muller(double* y, double mean, double std) {
  for (int j = 0; j < kPairs; ++j) {
    const double radius = sqrt(-2 * libm_model::log(1 - y[j]));
    const libm_model::SinCos angle = libm_model::sincos(0x1.921fb54442d18p+2 * y[j + kPairs]);
    y[j] = fma(radius * angle.cos, std, mean);
    y[j + kPairs] = fma(radius * angle.sin, std, mean);
  }
}

// Draws and transforms in pieces that stay in the cache; the redrawn last block comes after all other draws.
template <class T, class Draw, class Transform>
void fill(T* y, int64_t n, const Draw& draw, const Transform& transform) {
  const int64_t whole = n / kBlock * kBlock;
  for (int64_t done = 0; done < whole; done += kDraws) {
    const int64_t end = std::min<int64_t>(whole, done + kDraws);
    draw(y + done, end - done);
    for (int64_t i = done; i < end; i += kBlock) transform(y + i);
  }
  if (whole == n) return;
  T skipped[kBlock];
  draw(skipped, n - whole);
  draw(y + n - kBlock, kBlock);
  transform(y + n - kBlock);
}

}  // namespace

void normal_fill_f32(RandomState& state, float mean, float std, float* y, int64_t n) {
  fill(y, n, [&](float* p, int64_t count) { uniform_f32(state, 0, 1, p, count); }, [&](float* p) { box_muller(p, {mean, std}); });
}

void normal_fill_f64(RandomState& state, double mean, double std, double* y, int64_t n) {
  fill(y, n, [&](double* p, int64_t count) { uniform_f64(state, 0, 1, p, count); }, [&](double* p) { box_muller(p, mean, std); });
}

}  // namespace densecore::DENSECORE_ISA
