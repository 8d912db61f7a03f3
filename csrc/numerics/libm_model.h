// Scalar functions of Apple's libm, as modelled: the correctly rounded result (expf, which has a published algorithm, and the hot
// functions are inline in math/libm.h). Compiled once, without ISA variants.
//
// A function is evaluated by the C library in binary64. Where the result, with an error of up to 16 units in its last place, could
// round to two floats (one argument in 10^7), it is computed again in double-double. So the C library's own rounding never shows.
#pragma once

namespace densecore::libm_model {

float exp2f(float x);
float expm1f(float x);
float log1pf(float x);
float sinhf(float x);
float coshf(float x);
float tanhf(float x);
float asinhf(float x);
float acoshf(float x);
float atanhf(float x);
float erff(float x);
float sinf(float x);
float cosf(float x);
float powf(float x, float y);
// pow in binary64, correctly rounded, then rounded to float.
float pow_to_float(double x, double y);

// The second evaluation alone, for inline functions that do the first one themselves. x is positive and finite.
float logf_exact(float x);

}  // namespace densecore::libm_model
