// The last resort of the libm model (math/libm.h): results so near the middle between two floats that binary64 cannot tell the side.
// Computed in double-double (about 100 bits), slow, needed for one argument in 10^7. Compiled once, without ISA variants.
#pragma once

namespace densecore::exact {

float logf(float x);  // x positive and finite

}  // namespace densecore::exact
