#include "aten/Convert.h"

#include <ATen/TensorIterator.h>

#include "aten/Loops.h"
#include "aten/errors.h"
#include "aten/profile.h"
#include "numerics/pointwise/convert.h"

namespace densecore {
namespace {

std::optional<IntegerType> integer_type(at::ScalarType type) {
  switch (type) {
    case at::kByte: return IntegerType::kU8;
    case at::kChar: return IntegerType::kI8;
    case at::kShort: return IntegerType::kI16;
    case at::kInt: return IntegerType::kI32;
    case at::kLong: return IntegerType::kI64;
    default: return std::nullopt;
  }
}

}  // namespace

bool converts_to_integer(const at::Tensor& self, const at::Tensor& src) {
  return (src.scalar_type() == at::kFloat || src.scalar_type() == at::kDouble) && integer_type(self.scalar_type());
}

at::Tensor& convert_to_integer(at::Tensor& self, const at::Tensor& src) {
  if (!current_profile().saturating_casts) {
    raise_uncertified(c10::str("aten::copy_ of ", src.scalar_type(), " to ", self.scalar_type(), " on device 'densecore': only Arm's ",
                               "saturating rule is known, which the machine of the profile does not follow (", describe(current_profile()),
                               "). Ways on: convert on the CPU; another DENSECORE_PROFILE"));
  }
  auto iter = at::TensorIteratorConfig()
                  .add_output(self)
                  .add_const_input(src)
                  .resize_outputs(false)
                  .check_all_same_dtype(false)
                  .check_all_same_device(false)
                  .build();
  const IntegerType to = *integer_type(self.scalar_type());
  const auto& kernel = src.scalar_type() == at::kFloat ? convert_f32 : convert_f64;
  for_each(iter, current_profile(), [&](const Loop2d& loop) { kernel(loop, to); });
  return self;
}

}  // namespace densecore
