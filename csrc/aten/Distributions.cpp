// Random fills and samples (ATen/native/Distributions.cpp, Dropout.cpp). The stream is the CPU generator's; values come in the order of
// at::TensorIterator, which is the order of memory for any dense layout.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/cauchy_ops.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exponential_ops.h>
#include <ATen/ops/geometric_ops.h>
#include <ATen/ops/log_normal_ops.h>
#include <ATen/ops/multinomial_ops.h>
#include <ATen/ops/native_dropout_ops.h>
#include <ATen/ops/normal_ops.h>
#include <ATen/ops/topk_ops.h>
#include <ATen/ops/uniform_ops.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <vector>

#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/random/random.h"
#include "runtime/generator.h"

namespace densecore {
namespace {

using Generator = std::optional<at::Generator>;

// The state of a CPU generator, locked while a kernel draws from it and written back at the end.
class Stream {
 public:
  Stream(const Generator& generator, const at::Tensor& self) : host_(host_of(generator, self)), lock_(impl().mutex_) {
    const at::mt19937_data_pod data = impl().engine().data();
    std::copy(data.state_.begin(), data.state_.end(), state.words);
    state.left = data.left_;
    state.next = data.next_;
    const std::optional<double> normal = impl().next_double_normal_sample();
    state.has_normal = normal.has_value();
    state.normal = normal.value_or(0);
  }

  ~Stream() {
    at::mt19937 engine = impl().engine();
    at::mt19937_data_pod data = engine.data();
    std::copy(std::begin(state.words), std::end(state.words), data.state_.begin());
    data.left_ = state.left;
    data.next_ = state.next;
    engine.set_data(data);
    impl().set_engine(engine);
    impl().set_next_double_normal_sample(state.has_normal ? std::optional<double>(state.normal) : std::nullopt);
  }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  RandomState state;

 private:
  static at::Generator host_of(const Generator& generator, const at::Tensor& self) {
    if (!generator) return at::detail::getDefaultCPUGenerator();
    return self.is_cpu() && generator->device().is_cpu() ? *generator : host_generator(*generator);
  }
  at::CPUGeneratorImpl& impl() { return *static_cast<at::CPUGeneratorImpl*>(host_.unsafeGetGeneratorImpl()); }

  at::Generator host_;
  std::lock_guard<std::mutex> lock_;
};

// ---- filling a tensor ------------------------------------------------------------------------------------------------------

// Visits the elements of the iterator's first operand one by one, in its order.
template <class Visit>
void visit_elements(at::TensorIteratorBase& iter, int operand, const Visit& visit) {
  iter.serial_for_each(
      [&](char** data, const int64_t* strides, int64_t n) {
        for (int64_t i = 0; i < n; ++i) visit(data[operand] + i * strides[operand]);
      },
      {0, iter.numel()});
}

// draw(state, y, n) makes n values in stream order; they go straight into a dense self, else through a buffer.
template <class T, class Draw>
at::Tensor& fill(at::Tensor& self, const Generator& generator, const Draw& draw) {
  if (self.numel() == 0) return self;
  auto iter = at::TensorIterator::borrowing_nullary_op(self);
  const int64_t n = iter.numel();
  Stream stream(generator, self);
  if (iter.is_contiguous()) {
    draw(stream.state, static_cast<T*>(iter.data_ptr(0)), n);
    return self;
  }
  std::vector<T> values(n);
  draw(stream.state, values.data(), n);
  const T* next = values.data();
  visit_elements(iter, 0, [&](char* p) { std::memcpy(p, next++, sizeof(T)); });
  return self;
}

// Turns a kernel of doubles into one of T.
template <class T, class Kernel>
auto in_double(const Kernel& kernel) {
  return [kernel](RandomState& state, T* y, int64_t n) {
    std::array<double, 512> values;
    for (int64_t done = 0; done < n; done += values.size()) {
      const int64_t count = std::min<int64_t>(n - done, values.size());
      kernel(state, values.data(), count);
      std::transform(values.begin(), values.begin() + count, y + done, [](double x) { return static_cast<T>(x); });
    }
  };
}

// Fills a float32 or float64 self by a kernel of doubles.
template <class Kernel>
at::Tensor& fill_in_double(at::Tensor& self, const Generator& generator, const Kernel& kernel) {
  if (self.scalar_type() == at::kFloat) return fill<float>(self, generator, in_double<float>(kernel));
  return fill<double>(self, generator, kernel);
}

bool is_float_or_double(const at::Tensor& self) { return self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble; }

// ---- continuous distributions ----------------------------------------------------------------------------------------------

at::Tensor& uniform_(at::Tensor& self, double from, double to, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::uniform_>(self, from, to, generator);
  const bool single = self.scalar_type() == at::kFloat;
  const double max = single ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  const bool valid = from >= -max && from <= max && to >= -max && to <= max && from <= to && to - from <= max;
  if (!valid) host::error<at::_ops::uniform_>(self, from, to, generator);
  if (single) {
    return fill<float>(self, generator, [&](RandomState& state, float* y, int64_t n) {
      uniform_f32(state, static_cast<float>(from), static_cast<float>(to), y, n);
    });
  }
  return fill<double>(self, generator, [&](RandomState& state, double* y, int64_t n) { uniform_f64(state, from, to, y, n); });
}
DENSECORE_OP("aten::uniform_", uniform_);

at::Tensor& normal_(at::Tensor& self, double mean, double std, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::normal_>(self, mean, std, generator);
  if (!(std >= 0)) host::error<at::_ops::normal_>(self, mean, std, generator);
  if (self.numel() < 16 || !self.is_contiguous()) {
    return fill_in_double(self, generator, [&](RandomState& state, double* y, int64_t n) { normal_serial(state, mean, std, y, n); });
  }
  if (self.scalar_type() == at::kFloat) {
    return fill<float>(self, generator, [&](RandomState& state, float* y, int64_t n) {
      normal_fill_f32(state, static_cast<float>(mean), static_cast<float>(std), y, n);
    });
  }
  return fill<double>(self, generator, [&](RandomState& state, double* y, int64_t n) { normal_fill_f64(state, mean, std, y, n); });
}
DENSECORE_OP("aten::normal_", normal_);

at::Tensor& exponential_(at::Tensor& self, double lambda, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::exponential_>(self, lambda, generator);
  if (!(lambda > 0)) host::error<at::_ops::exponential_>(self, lambda, generator);
  if (self.scalar_type() == at::kFloat) {
    return fill<float>(self, generator, [&](RandomState& state, float* y, int64_t n) { exponential_f32(state, lambda, y, n); });
  }
  return fill<double>(self, generator, [&](RandomState& state, double* y, int64_t n) { exponential_f64(state, lambda, y, n); });
}
DENSECORE_OP("aten::exponential_", exponential_);

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, Generator generator) {
  if (self.scalar_type() != at::kFloat) return host::call<at::_ops::log_normal_>(self, mean, std, generator);
  if (!(std > 0)) host::error<at::_ops::log_normal_>(self, mean, std, generator);
  return fill_in_double(self, generator, [&](RandomState& state, double* y, int64_t n) { log_normal_serial(state, mean, std, y, n); });
}
DENSECORE_OP("aten::log_normal_", log_normal_);

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::cauchy_>(self, median, sigma, generator);
  if (!(sigma > 0)) host::error<at::_ops::cauchy_>(self, median, sigma, generator);
  return fill_in_double(self, generator, [&](RandomState& state, double* y, int64_t n) { cauchy_serial(state, median, sigma, y, n); });
}
DENSECORE_OP("aten::cauchy_", cauchy_);

at::Tensor& geometric_(at::Tensor& self, double p, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::geometric_>(self, p, generator);
  if (!(p > 0 && p < 1)) host::error<at::_ops::geometric_>(self, p, generator);
  return fill_in_double(self, generator, [&](RandomState& state, double* y, int64_t n) { geometric_serial(state, p, y, n); });
}
DENSECORE_OP("aten::geometric_", geometric_);

// ---- normal with tensors for mean or standard deviation: a standard sample, scaled and shifted by ops of their own -----------

bool is_valid_std(const at::Tensor& std) { return std.numel() == 0 || std.min().ge(0).item<bool>(); }

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, Generator generator) {
  if (!is_float_or_double(mean)) return host::call<at::_ops::normal_Tensor_float>(mean, std, generator);
  if (!(std >= 0)) host::error<at::_ops::normal_Tensor_float>(mean, std, generator);
  at::Tensor out = at::empty_like(mean, at::MemoryFormat::Contiguous);
  return normal_(out, 0, std, generator).add_(mean);
}
DENSECORE_OP("aten::normal.Tensor_float", normal_tensor_float);

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, Generator generator) {
  if (!is_float_or_double(std)) return host::call<at::_ops::normal_float_Tensor>(mean, std, generator);
  if (!is_valid_std(std)) host::error<at::_ops::normal_float_Tensor>(mean, std, generator);
  at::Tensor out = at::empty_like(std, at::MemoryFormat::Contiguous);
  return normal_(out, 0, 1, generator).mul_(std).add_(mean);
}
DENSECORE_OP("aten::normal.float_Tensor", normal_float_tensor);

at::Tensor normal_tensor_tensor(const at::Tensor& mean, const at::Tensor& std, Generator generator) {
  if (!is_float_or_double(mean) || !is_float_or_double(std)) {
    return host::call<at::_ops::normal_Tensor_Tensor>(mean, std, generator);
  }
  if (!at::are_expandable(mean.sizes(), std.sizes()) || !is_valid_std(std)) {
    host::error<at::_ops::normal_Tensor_Tensor>(mean, std, generator);
  }
  at::Tensor out = at::empty(at::infer_size(mean.sizes(), std.sizes()), mean.options());
  return normal_(out, 0, 1, generator).mul_(std).add_(mean);
}
DENSECORE_OP("aten::normal.Tensor_Tensor", normal_tensor_tensor);

// ---- bernoulli ---------------------------------------------------------------------------------------------------------------

std::optional<Element> bernoulli_element(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return Element::kF32;
    case at::kDouble: return Element::kF64;
    case at::kBool:
    case at::kByte:
    case at::kChar: return Element::kI8;
    case at::kShort: return Element::kI16;
    case at::kInt: return Element::kI32;
    case at::kLong: return Element::kI64;
    default: return std::nullopt;
  }
}

// Calls f with the unsigned integer type of an element's size.
template <class F>
decltype(auto) with_word(const at::Tensor& self, const F& f) {
  switch (self.element_size()) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

at::Tensor& bernoulli_float(at::Tensor& self, double p, Generator generator) {
  const auto element = bernoulli_element(self.scalar_type());
  if (!element) return host::call<at::_ops::bernoulli__float>(self, p, generator);
  if (!(p >= 0 && p <= 1)) host::error<at::_ops::bernoulli__float>(self, p, generator);
  return with_word(self, [&](auto word) -> at::Tensor& {
    using T = decltype(word);
    return fill<T>(self, generator, [&](RandomState& state, T* y, int64_t n) { bernoulli(state, p, *element, y, n); });
  });
}
DENSECORE_OP("aten::bernoulli_.float", bernoulli_float);

// p in the iterator's order (operand 1), or nothing if one of them is no probability.
template <class P>
std::optional<std::vector<P>> probabilities(at::TensorIteratorBase& iter) {
  std::vector<P> p;
  p.reserve(iter.numel());
  bool valid = true;
  visit_elements(iter, 1, [&](const char* source) {
    P value;
    std::memcpy(&value, source, sizeof(P));
    valid &= value >= 0 && value <= 1;
    p.push_back(value);
  });
  return valid ? std::optional(std::move(p)) : std::nullopt;
}

// False if a value of p is no probability.
template <class P, class Kernel>
bool fill_by(at::Tensor& self, const at::Tensor& p, const Generator& generator, Element element, const Kernel& kernel) {
  auto iter = at::TensorIteratorConfig().add_output(self).add_const_input(p).check_all_same_dtype(false).build();
  const auto values = probabilities<P>(iter);
  if (!values) return false;
  std::vector<char> samples(iter.numel() * self.element_size());
  Stream stream(generator, self);
  kernel(stream.state, values->data(), element, samples.data(), iter.numel());
  const char* next = samples.data();
  visit_elements(iter, 0, [&, size = self.element_size()](char* target) {
    std::memcpy(target, next, size);
    next += size;
  });
  return true;
}

at::Tensor& bernoulli_tensor(at::Tensor& self, const at::Tensor& p, Generator generator) {
  const auto element = bernoulli_element(self.scalar_type());
  if (!element || !is_float_or_double(p)) return host::call<at::_ops::bernoulli__Tensor>(self, p, generator);
  if (self.numel() == 0) return self;
  at::assert_no_internal_overlap(self);
  const at::Tensor near = p.to(self.device());
  const auto expanded = at::expand_inplace(self, near, "bernoulli_");
  const bool valid = p.scalar_type() == at::kDouble ? fill_by<double>(self, *expanded, generator, *element, bernoulli_by_f64)
                                                    : fill_by<float>(self, *expanded, generator, *element, bernoulli_by_f32);
  if (!valid) host::error<at::_ops::bernoulli__Tensor>(self, p, generator);
  return self;
}
DENSECORE_OP("aten::bernoulli_.Tensor", bernoulli_tensor);

at::Tensor& bernoulli_out(const at::Tensor& self, Generator generator, at::Tensor& out) {
  out.resize_(self.sizes());
  return bernoulli_tensor(out, self, generator);
}
DENSECORE_OP("aten::bernoulli.out", bernoulli_out);

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!is_float_or_double(input)) return host::call<at::_ops::native_dropout>(input, p, train);
  if (input.numel() == 0 || !train.value_or(true)) return host::run<at::_ops::native_dropout>(input, p, train);
  const double kept = 1 - p;
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  bernoulli_float(mask, kept, std::nullopt);
  return {input.mul(mask).mul_(kept == 0 ? 0 : 1 / kept), mask};
}
DENSECORE_OP("aten::native_dropout", native_dropout);

// ---- multinomial -------------------------------------------------------------------------------------------------------------

// Whether all weights are finite and not negative, and no row is all zeros.
template <class T>
bool are_weights(const at::Tensor& self) {
  const at::Tensor rows = self.contiguous();
  const int64_t width = rows.size(-1);
  const T* end = rows.const_data_ptr<T>() + rows.numel();
  for (const T* row = rows.const_data_ptr<T>(); row != end; row += width) {
    const bool valid = std::all_of(row, row + width, [](T x) { return x >= 0 && x <= std::numeric_limits<T>::max(); });
    if (!valid || std::all_of(row, row + width, [](T x) { return x == 0; })) return false;
  }
  return true;
}

// Without replacement: the indices of the largest weight / exponential(1).
at::Tensor multinomial(const at::Tensor& self, int64_t samples, bool replacement, Generator generator) {
  if (!is_float_or_double(self)) return host::call<at::_ops::multinomial>(self, samples, replacement, generator);
  // With replacement: sums in index order, a division and a binary search for each sample, which every host does alike.
  if (replacement && samples != 1) return host::run<at::_ops::multinomial>(self, samples, replacement, generator);
  const bool valid = (self.dim() == 1 || self.dim() == 2) && self.size(-1) > 0 && samples > 0 && samples <= self.size(-1);
  if (!valid) return host::run<at::_ops::multinomial>(self, samples, replacement, generator);
  if (!(self.scalar_type() == at::kFloat ? are_weights<float>(self) : are_weights<double>(self))) host::error<at::_ops::multinomial>(self, samples, replacement, generator);
  at::Tensor q = at::empty_like(self);
  exponential_(q, 1, generator);
  at::div_out(q, self, q);
  if (samples == 1) return at::argmax(q, -1, /*keepdim=*/true);
  const c10::DispatchKeySet ours(c10::DispatchKey::PrivateUse1);  // on the CPU too, where topk need not be emulated
  return std::get<1>(at::_ops::topk::redispatch(ours, q, samples, -1, true, true));
}
DENSECORE_OP("aten::multinomial", multinomial);

}  // namespace
}  // namespace densecore
