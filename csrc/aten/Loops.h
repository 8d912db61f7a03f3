// Runs a kernel of csrc/numerics/pointwise over a TensorIterator as the reference would: at::TensorIteratorBase::for_each with the
// profile's chunks in place of the host's threads.
//
//   auto iter = at::TensorIterator::binary_op(out, self, other);
//   const Profile& profile = current_profile();
//   for_each(iter, profile, [&](const Loop2d& loop) { add_f32(loop, profile, alpha); });
//
// On a device other than the CPU an iterator does not convert operands to the common dtype (on the CPU it does, by temporaries): a
// binding converts its inputs before it builds the iterator.
#pragma once

#include <ATen/TensorIterator.h>

#include "aten/profile.h"
#include "numerics/parallel.h"
#include "numerics/pointwise/loop2d.h"

namespace densecore {

template <class Body>
void for_each(at::TensorIteratorBase& iter, const Profile& profile, const Body& body, int64_t grain = kGrainSize) {
  const Chunks chunks = divide(profile, 0, iter.numel(), grain);
  const auto loop = [&](char** data, const int64_t* strides, int64_t inner, int64_t outer) {
    body(Loop2d{data, strides, inner, outer});
  };
  if (chunks.count == 0) return;
  parallel_run(chunks.count, [&](int64_t i) { iter.serial_for_each(loop, {chunks.chunk_begin(i), chunks.chunk_end(i)}); });
}

}  // namespace densecore
