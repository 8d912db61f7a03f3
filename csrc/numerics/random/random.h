// Random numbers: the CPU generator's mt19937 stream and the distributions drawn from it.
//
// Every kernel fills n contiguous values in stream order and leaves the state as at::CPUGeneratorImpl would be after the same
// draws, the cached normal sample included. Strided outputs are the binding's business.
#pragma once

#include <cstdint>

#include "../dispatch.h"

namespace densecore {

inline constexpr int kMtWords = 624;

// The part of at::CPUGeneratorImpl that decides values. `left` and `next` are at::mt19937_data_pod's: before a draw `left` is
// decremented, and at 0 the next block of 624 words is made.
struct RandomState {
  uint32_t words[kMtWords];
  int32_t left;
  uint32_t next;
  bool has_normal;  // next_double_normal_sample
  double normal;
};

// Element types that bernoulli writes; bool, uint8 and int8 share one.
enum class Element { kF32, kF64, kI8, kI16, kI32, kI64 };

// [from, to): 24 bits of one word, or 53 bits of two words.
using UniformF32Fn = void(RandomState& state, float from, float to, float* y, int64_t n);
using UniformF64Fn = void(RandomState& state, double from, double to, double* y, int64_t n);
DENSECORE_KERNEL(uniform_f32, UniformF32Fn);
DENSECORE_KERNEL(uniform_f64, UniformF64Fn);

// 1 with probability p, else 0. A double p takes two words per value, a float p one.
using BernoulliFn = void(RandomState& state, double p, Element element, void* y, int64_t n);
using BernoulliF32Fn = void(RandomState& state, const float* p, Element element, void* y, int64_t n);
using BernoulliF64Fn = void(RandomState& state, const double* p, Element element, void* y, int64_t n);
DENSECORE_KERNEL(bernoulli, BernoulliFn);
DENSECORE_KERNEL(bernoulli_by_f32, BernoulliF32Fn);
DENSECORE_KERNEL(bernoulli_by_f64, BernoulliF64Fn);

// Contiguous outputs of at least 16 values: Box-Muller on blocks of 16.
using NormalFillF32Fn = void(RandomState& state, float mean, float std, float* y, int64_t n);
using NormalFillF64Fn = void(RandomState& state, double mean, double std, double* y, int64_t n);
DENSECORE_KERNEL(normal_fill_f32, NormalFillF32Fn);
DENSECORE_KERNEL(normal_fill_f64, NormalFillF64Fn);

// One value at a time in double: two words pairs give two samples, the second is kept in the state.
using TwoParametersFn = void(RandomState& state, double a, double b, double* y, int64_t n);
DENSECORE_KERNEL(normal_serial, TwoParametersFn);      // mean, standard deviation
DENSECORE_KERNEL(log_normal_serial, TwoParametersFn);  // mean, standard deviation of the logarithm
DENSECORE_KERNEL(cauchy_serial, TwoParametersFn);      // median, scale
using OneParameterFn = void(RandomState& state, double a, double* y, int64_t n);
DENSECORE_KERNEL(geometric_serial, OneParameterFn);  // success probability

// Rate lambda; computed in double and rounded once.
using ExponentialF32Fn = void(RandomState& state, double lambda, float* y, int64_t n);
DENSECORE_KERNEL(exponential_f32, ExponentialF32Fn);
DENSECORE_KERNEL(exponential_f64, OneParameterFn);

}  // namespace densecore
