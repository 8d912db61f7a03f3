// The model of Apple's double-precision libm, for the distributions that compute in double: correctly rounded, by double-double
// evaluation with an error near 2^-100, so a wrong rounding has a chance near 2^-47 per call. Compiled once, without ISA variants.
#pragma once

namespace densecore::libm_model {

struct SinCos {
  double sin;
  double cos;
};

double log(double x);
double log1p(double x);
double exp(double x);
// For |x| up to 2 pi and a little.
SinCos sincos(double x);
double tan(double x);

}  // namespace densecore::libm_model
