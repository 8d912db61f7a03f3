// The reference's copy loop (ATen/native/cpu/CopyKernel.cpp) as its compiler vectorised it. A contiguous row is done in groups, the
// rest of it and strided rows one by one; each converts to an intermediate integer that saturates and keeps the low bits.
//
//   from    to     group (elements)     rest of a row   strided
//   float   u8     uint32 (8)           int32           int64
//   float   i8/16  int32                int32           int32
//   double  u8     int64 (4)            int32           int64
//   double  i8/16  int64 (4)            int32           int32
//   double  i32    int64 (2)            int32           int32
//
// Found by sweeping the reference over sizes; int64, and int32 from float, have one way only.
#include "convert.h"

#include <cstring>
#include <limits>

#include "../lanes.h"

namespace densecore::DENSECORE_ISA {
namespace {

// FCVTZS, FCVTZU: toward zero, saturating, 0 for NaN.
template <class Wide, class From>
DENSECORE_INLINE Wide saturate(From x) {
  constexpr From above = static_cast<From>(std::numeric_limits<Wide>::max() / 2 + 1) * 2;  // one more than the largest, exactly
  constexpr From below = static_cast<From>(std::numeric_limits<Wide>::min());
  if (x != x) return 0;
  if (x >= above) return std::numeric_limits<Wide>::max();
  if (x <= below) return std::numeric_limits<Wide>::min();
  return static_cast<Wide>(x);
}

template <class To, class Wide, class From>
DENSECORE_INLINE void convert_row(const char* x, int64_t x_stride, char* y, int64_t y_stride, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    From value;
    std::memcpy(&value, x + i * x_stride, sizeof(From));
    const To result = static_cast<To>(saturate<Wide>(value));
    std::memcpy(y + i * y_stride, &result, sizeof(To));
  }
}

template <class To, class From, class Group, int kGroup, class Rest, class Strided>
DENSECORE_INLINE void convert(const Loop2d& loop) {
  const bool contiguous = loop.strides[0] == sizeof(To) && loop.strides[1] == sizeof(From);
  for (int64_t row = 0; row < loop.outer; ++row) {
    char* y = loop.data[0] + row * loop.strides[2];
    const char* x = loop.data[1] + row * loop.strides[3];
    if (contiguous) {
      const int64_t grouped = loop.inner - loop.inner % kGroup;
      convert_row<To, Group, From>(x, sizeof(From), y, sizeof(To), 0, grouped);
      convert_row<To, Rest, From>(x, sizeof(From), y, sizeof(To), grouped, loop.inner);
    } else {
      convert_row<To, Strided, From>(x, loop.strides[1], y, loop.strides[0], 0, loop.inner);
    }
  }
}

}  // namespace

void convert_f32(const Loop2d& loop, IntegerType to) {
  switch (to) {
    case IntegerType::kU8: return convert<uint8_t, float, uint32_t, 8, int32_t, int64_t>(loop);
    case IntegerType::kI8: return convert<int8_t, float, int32_t, 1, int32_t, int32_t>(loop);
    case IntegerType::kI16: return convert<int16_t, float, int32_t, 1, int32_t, int32_t>(loop);
    case IntegerType::kI32: return convert<int32_t, float, int32_t, 1, int32_t, int32_t>(loop);
    case IntegerType::kI64: return convert<int64_t, float, int64_t, 1, int64_t, int64_t>(loop);
  }
}

void convert_f64(const Loop2d& loop, IntegerType to) {
  switch (to) {
    case IntegerType::kU8: return convert<uint8_t, double, int64_t, 4, int32_t, int64_t>(loop);
    case IntegerType::kI8: return convert<int8_t, double, int64_t, 4, int32_t, int32_t>(loop);
    case IntegerType::kI16: return convert<int16_t, double, int64_t, 4, int32_t, int32_t>(loop);
    case IntegerType::kI32: return convert<int32_t, double, int64_t, 2, int32_t, int32_t>(loop);
    case IntegerType::kI64: return convert<int64_t, double, int64_t, 1, int64_t, int64_t>(loop);
  }
}

}  // namespace densecore::DENSECORE_ISA
