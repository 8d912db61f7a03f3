// Runs reductions over a TensorIterator as the reference would (ATen/native/TensorIteratorReduce.cpp, native/cpu/Reduce.h), with the
// profile's thread count in place of the host's: it decides which elements are summed apart.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "aten/profile.h"
#include "numerics/parallel.h"
#include "numerics/reduce/ReduceOpsKernel.h"

namespace densecore {

namespace detail {

// One output of one strided dimension: as below, with the copies on the stack.
template <class Loop>
void two_pass_strided_reduction(at::TensorIteratorBase& iter, const Profile& profile, const Loop& loop) {
  char* const input = static_cast<char*>(iter.data_ptr(1));
  float* const output = static_cast<float*>(iter.data_ptr(0));
  const int64_t step = iter.strides(1)[0];
  c10::SmallVector<float, 16> partials(profile.threads, *output);
  const auto reduce = [&](float* into, char* from, int64_t stride, int64_t size) {
    char* data[] = {reinterpret_cast<char*>(into), from};
    const int64_t strides[] = {0, stride, 0, 0};
    loop(data, strides, size, 1);
  };
  const Chunks chunks = divide(profile, 0, iter.numel(), kGrainSize);
  parallel_run(chunks.count, [&](int64_t i) {
    const int64_t begin = chunks.chunk_begin(i);
    reduce(&partials[i], input + begin * step, step, chunks.chunk_end(i) - begin);
  });
  reduce(output, reinterpret_cast<char*>(partials.data()), sizeof(float), profile.threads);
}

// One output: each thread reduces a range into its own copy of the output, which holds the identity; then the copies are reduced.
template <class Loop>
void two_pass_reduction(at::TensorIteratorBase& iter, const Profile& profile, const Loop& loop) {
  if (iter.ndim() == 1 && iter.dtype(0) == at::kFloat) return two_pass_strided_reduction(iter, profile, loop);
  at::Tensor target = iter.output(0).unsqueeze(0);
  at::DimVector shape(target.sizes());
  shape[0] = profile.threads;
  at::Tensor partials = at::empty(shape, target.options());
  partials.copy_(target);
  const Chunks chunks = divide(profile, 0, iter.numel(), kGrainSize);
  std::vector<at::TensorIterator> parts;
  for (int64_t thread = 0; thread < chunks.count; ++thread) {
    at::Tensor partial = partials.select(0, thread);
    parts.push_back(at::TensorIterator::reduce_op(partial, iter.input(0)));
  }
  parallel_run(chunks.count, [&](int64_t thread) {
    parts[thread].serial_for_each(loop, {chunks.chunk_begin(thread), chunks.chunk_end(thread)});
  });
  at::TensorIterator last = at::TensorIterator::reduce_op(target, partials);
  last.serial_for_each(loop, {0, last.numel()});
}

// The outermost dimension that has as many outputs as threads, else the longest of those that are not reduced.
inline int split_dimension(const at::TensorIteratorBase& iter, int threads) {
  const at::IntArrayRef shape = iter.shape();
  int best = iter.ndim() - 1;
  for (int d = best; d >= 0 && !iter.is_dim_reduced(d); --d) {
    if (shape[d] >= threads) return d;
    if (shape[d] > shape[best]) best = d;
  }
  return best;
}

// Several outputs: the threads divide them along one dimension, at 128-byte bounds where outputs are neighbours in memory.
template <class Loop>
void dimension_reduction(at::TensorIteratorBase& iter, const Profile& profile, const Loop& loop) {
  const int dim = split_dimension(iter, profile.threads);
  const int64_t columns = iter.shape()[dim];
  const int64_t element_size = iter.element_size(1);
  const int64_t multiple = iter.strides(1)[dim] == element_size ? 128 / element_size : 1;
  const Chunks chunks = divide(profile, 0, columns, 1);
  parallel_run(chunks.count, [&](int64_t i) {
    const int64_t begin = chunks.chunk_begin(i) / multiple * multiple;
    const int64_t end = chunks.chunk_end(i) == columns ? columns : chunks.chunk_end(i) / multiple * multiple;
    if (begin == end) return;
    at::TensorIterator part(iter);
    part.narrow(dim, begin, end - begin);
    part.serial_for_each(loop, {0, part.numel()});
  });
}

}  // namespace detail

// at::TensorIteratorBase::parallel_reduce. The output holds the identity; `loop` has a reduction's 2-d form
// (numerics/reduce/SumKernel.h).
template <class Loop>
void parallel_reduce(at::TensorIteratorBase& iter, const Profile& profile, const Loop& loop) {
  if (iter.numel() < kGrainSize || profile.threads == 1) {
    iter.serial_for_each(loop, {0, iter.numel()});
  } else if (iter.output(0).numel() == 1) {
    detail::two_pass_reduction(iter, profile, loop);
  } else {
    detail::dimension_reduction(iter, profile, loop);
  }
}

// A reduction's outputs, and the elements that each of them reduces.
class ReducedOutputs {
 public:
  explicit ReducedOutputs(const at::TensorIteratorBase& iter) : iter_(iter) {
    const int input = iter.ntensors() - 1;
    for (int d = 0; d < iter.ndim(); ++d) {
      if (iter.is_dim_reduced(d)) {
        sizes_.push_back(iter.shape()[d]);
        strides_.push_back(iter.strides(input)[d]);
      } else {
        output_dims_.push_back(d);
        count_ *= iter.shape()[d];
      }
    }
  }
  int64_t count() const { return count_; }
  ReducedDims dims() const { return {static_cast<int>(sizes_.size()), sizes_.data(), strides_.data()}; }
  int64_t elements() const { return iter_.numel() / std::max<int64_t>(1, count_); }

  // Operand `arg` at outputs [first, first + n).
  void pointers(int arg, int64_t first, int64_t n, char** p) const {
    for (int64_t k = 0; k < n; ++k) {
      int64_t rest = first + k;
      p[k] = static_cast<char*>(iter_.data_ptr(arg));
      for (const int d : output_dims_) {
        p[k] += rest % iter_.shape()[d] * iter_.strides(arg)[d];
        rest /= iter_.shape()[d];
      }
    }
  }

  // body(first, n) for blocks of outputs, on the host's threads.
  template <class Body>
  void each_block(int64_t block, const Body& body) const {
    const int64_t blocks = divup(count_, block);
    const int64_t per_task = std::max<int64_t>(1, kGrainSize / std::max<int64_t>(1, block * elements()));
    parallel_run(divup(blocks, per_task), [&](int64_t task) {
      const int64_t end = std::min(blocks, (task + 1) * per_task);
      for (int64_t b = task * per_task; b < end; ++b) body(b * block, std::min(block, count_ - b * block));
    });
  }

 private:
  const at::TensorIteratorBase& iter_;
  at::DimVector sizes_, strides_;
  std::vector<int> output_dims_;
  int64_t count_ = 1;
};

// at::TensorIteratorBase::foreach_reduced_elt with binary_kernel_reduce's body for one output: what the profile's threads
// accumulate, each from its range of elements. Several outputs are never divided.
template <class Range>
auto reduce_ranges(int64_t elements, const Profile& profile, const Range& range) {
  const Chunks chunks = elements < kGrainSize ? Chunks{0, elements, elements, 1} : divide(profile, 0, elements, kGrainSize);
  std::vector<decltype(range(0, 0))> partials(chunks.count);
  parallel_run(chunks.count, [&](int64_t i) { partials[i] = range(chunks.chunk_begin(i), chunks.chunk_end(i)); });
  return partials;
}

}  // namespace densecore
