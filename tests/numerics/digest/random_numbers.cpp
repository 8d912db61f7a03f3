#include "inputs.h"
#include "random/random.h"
#include "report.h"

#define DIGEST_NAMED(kernel) #kernel, densecore::kernel

namespace digest {
namespace {

using densecore::Element;
using densecore::RandomState;

constexpr int64_t kCounts[] = {0, 1, 3, 15, 16, 17, 32, 100, 625, 2000};

RandomState seeded() {
  RandomState state{};
  for (int i = 0; i < densecore::kMtWords; ++i) state.words[i] = static_cast<uint32_t>(word(1, i));
  state.left = 1;
  return state;
}

void add_state(Line& line, const RandomState& state) {
  line.add(state.words, densecore::kMtWords);
  line.add_value(state.left);
  line.add_value(state.next);
  line.add_value(state.has_normal ? state.normal : 0.0);
}

// draw(state, y, n) one after the other from one state.
template <class T, class Draw>
void draws(Report& report, const char* name, const char* variant, const Draw& draw, int64_t minimum = 0) {
  report.line(name, variant, [&](Line& line) {
    RandomState state = seeded();
    for (const int64_t n : kCounts) {
      if (n < minimum) continue;
      std::vector<T> y(n);
      draw(state, y.data(), n);
      line.add(y);
      add_state(line, state);
    }
  });
}

template <class T, class Kernel>
void with_parameters(Report& report, const char* name, const Kernel& kernel, T a, T b, int64_t minimum = 0) {
  draws<T>(report, name, sizeof(T) == 4 ? "float32" : "float64", [&](RandomState& state, T* y, int64_t n) { kernel(state, a, b, y, n); }, minimum);
}

template <class T>
void bernoulli(Report& report, Element element, const char* variant) {
  draws<T>(report, "bernoulli", variant, [&](RandomState& s, T* y, int64_t n) { densecore::bernoulli(s, 0.3, element, y, n); });
  draws<T>(report, "bernoulli_by_f32", variant, [&](RandomState& s, T* y, int64_t n) {
    densecore::bernoulli_by_f32(s, values<float>(n, n, Kind::kUnit).data(), element, y, n);
  });
  draws<T>(report, "bernoulli_by_f64", variant, [&](RandomState& s, T* y, int64_t n) {
    densecore::bernoulli_by_f64(s, values<double>(n, n, Kind::kUnit).data(), element, y, n);
  });
}

}  // namespace

void random_numbers(Report& report) {
  with_parameters<float>(report, DIGEST_NAMED(uniform_f32), -1.0f, 3.0f);
  with_parameters<double>(report, DIGEST_NAMED(uniform_f64), -1.0, 3.0);
  with_parameters<float>(report, DIGEST_NAMED(normal_fill_f32), 0.5f, 2.0f, 16);
  with_parameters<double>(report, DIGEST_NAMED(normal_fill_f64), 0.5, 2.0, 16);
  with_parameters<double>(report, DIGEST_NAMED(normal_serial), 0.5, 2.0);
  with_parameters<double>(report, DIGEST_NAMED(log_normal_serial), 0.5, 0.7);
  with_parameters<double>(report, DIGEST_NAMED(cauchy_serial), 0.5, 2.0);
  draws<double>(report, "geometric_serial", "float64", [](RandomState& s, double* y, int64_t n) { densecore::geometric_serial(s, 0.3, y, n); });
  draws<double>(report, "exponential_f64", "float64", [](RandomState& s, double* y, int64_t n) { densecore::exponential_f64(s, 1.5, y, n); });
  draws<float>(report, "exponential_f32", "float32", [](RandomState& s, float* y, int64_t n) { densecore::exponential_f32(s, 1.5, y, n); });
  bernoulli<float>(report, Element::kF32, "float32");
  bernoulli<double>(report, Element::kF64, "float64");
  bernoulli<int8_t>(report, Element::kI8, "int8");
  bernoulli<int16_t>(report, Element::kI16, "int16");
  bernoulli<int32_t>(report, Element::kI32, "int32");
  bernoulli<int64_t>(report, Element::kI64, "int64");
}

}  // namespace digest
