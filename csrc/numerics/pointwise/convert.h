// Floats to integers. In range all hosts agree (toward zero); outside, C++ leaves the result open and the reference's is that of Arm's
// saturating instructions, of a width that the compiler chose.
#pragma once

#include "../dispatch.h"
#include "loop2d.h"

namespace densecore {

enum class IntegerType { kU8, kI8, kI16, kI32, kI64 };

// (output of `to`, float or double input)
using ConvertFn = void(const Loop2d& loop, IntegerType to);
DENSECORE_KERNEL(convert_f32, ConvertFn);
DENSECORE_KERNEL(convert_f64, ConvertFn);

}  // namespace densecore
