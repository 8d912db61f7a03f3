// ATen's Activation.cpp, float32. Activations without a kernel here (threshold, leaky_relu, hardsigmoid, hardswish, hardshrink) are made
// of single IEEE operations, which the host computes with the reference's bits; relu and hardtanh are in TensorCompare.cpp.
#include <ATen/core/Tensor.h>
#include <ATen/ops/elu_backward_ops.h>
#include <ATen/ops/elu_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/glu_ops.h>
#include <ATen/ops/hardshrink_backward_ops.h>
#include <ATen/ops/hardswish_backward_ops.h>
#include <ATen/ops/hardtanh_backward_ops.h>
#include <ATen/ops/log_sigmoid_forward_ops.h>
#include <ATen/ops/mish_backward_ops.h>
#include <ATen/ops/mish_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/softplus_backward_ops.h>
#include <ATen/ops/softplus_ops.h>
#include <ATen/ops/softshrink_backward_ops.h>
#include <ATen/ops/softshrink_ops.h>
#include <ATen/ops/tanh_backward_ops.h>

#include <limits>

#include "aten/Loops.h"
#include "aten/float_operands.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "numerics/pointwise/activation.h"

namespace densecore {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorIterator;

// Bindings of an op of one input tensor. Op names the forms (Functional, InPlace, Out) and has valid(args...) and
// run(iter, profile, args...); Op::Arguments is the function type of the arguments after the tensor.
template <class Op, class Arguments = typename Op::Arguments>
struct Forward;
template <class Op, class... Args>
struct Forward<Op, void(Args...)> {
  static Tensor functional(const Tensor& self, Args... args) {
    if (!is_float(self)) return host::call<typename Op::Functional>(self, args...);
    if (!Op::valid(args...)) host::error<typename Op::Functional>(self, args...);
    Tensor out;
    auto iter = TensorIterator::unary_op(out, self);
    Op::run(iter, current_profile(), args...);
    return iter.output();
  }
  static Tensor& in_place(Tensor& self, Args... args) {
    if (!is_float(self)) return host::call<typename Op::InPlace>(self, args...);
    if (!Op::valid(args...)) host::error<typename Op::InPlace>(self, args...);
    auto iter = TensorIterator::unary_op(self, self);
    Op::run(iter, current_profile(), args...);
    return self;
  }
  static Tensor& out(const Tensor& self, Args... args, Tensor& out) {
    if (!is_float(self) || !is_float(out)) return host::call<typename Op::Out>(self, args..., out);
    if (!Op::valid(args...)) host::error<typename Op::Out>(self, args..., out);
    auto iter = TensorIterator::unary_op(out, self);
    Op::run(iter, current_profile(), args...);
    return out;
  }
};

// Bindings of a derivative: the gradient and the input (or output) of the forward op.
template <class Op, class Arguments = typename Op::Arguments>
struct Backward;
template <class Op, class... Args>
struct Backward<Op, void(Args...)> {
  static Tensor functional(const Tensor& grad, const Tensor& self, Args... args) {
    if (!is_float(grad) || !is_float(self)) return host::call<typename Op::Functional>(grad, self, args...);
    if (!Op::valid(args...)) host::error<typename Op::Functional>(grad, self, args...);
    Tensor grad_input;
    auto iter = TensorIterator::borrowing_binary_op(grad_input, grad, self);
    Op::run(iter, current_profile(), args...);
    return iter.output();
  }
  static Tensor& out(const Tensor& grad, const Tensor& self, Args... args, Tensor& grad_input) {
    if (!is_float(grad) || !is_float(self) || !is_float(grad_input)) {
      return host::call<typename Op::Out>(grad, self, args..., grad_input);
    }
    if (!Op::valid(args...)) host::error<typename Op::Out>(grad, self, args..., grad_input);
    auto iter = TensorIterator::borrowing_binary_op(grad_input, grad, self);
    Op::run(iter, current_profile(), args...);
    return grad_input;
  }
};

void run_plain(TensorIterator& iter, const Profile& profile, const Dispatched<UnaryFn>& kernel, int64_t grain = kGrainSize) {
  for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile); }, grain);
}

// ---- gelu --------------------------------------------------------------------------------------------------------------------

bool is_gelu_type(std::string_view approximate) { return approximate == "none" || approximate == "tanh"; }

struct GeluOp {
  using Functional = at::_ops::gelu;
  using InPlace = at::_ops::gelu_;
  using Out = at::_ops::gelu_out;
  using Arguments = void(std::string_view);
  static bool valid(std::string_view approximate) { return is_gelu_type(approximate); }
  static void run(TensorIterator& iter, const Profile& profile, std::string_view approximate) {
    // ATen: one chunk a thread from 16384 elements on.
    const int64_t grain = iter.numel() > 16384 ? iter.numel() / profile.threads : kGrainSize;
    run_plain(iter, profile, approximate == "none" ? gelu_erf_f32 : gelu_tanh_f32, grain);
  }
};
using Gelu = Forward<GeluOp>;
DENSECORE_OP("aten::gelu", Gelu::functional);
DENSECORE_OP("aten::gelu_", Gelu::in_place);
DENSECORE_OP("aten::gelu.out", Gelu::out);

struct GeluBackwardOp {
  using Functional = at::_ops::gelu_backward;
  using Out = at::_ops::gelu_backward_grad_input;
  using Arguments = void(std::string_view);
  static bool valid(std::string_view approximate) { return is_gelu_type(approximate); }
  static void run(TensorIterator& iter, const Profile& profile, std::string_view approximate) {
    run_plain(iter, profile, approximate == "none" ? gelu_erf_backward_f32 : gelu_tanh_backward_f32);
  }
};
using GeluBackward = Backward<GeluBackwardOp>;
DENSECORE_OP("aten::gelu_backward", GeluBackward::functional);
DENSECORE_OP("aten::gelu_backward.grad_input", GeluBackward::out);

// ---- silu, mish, tanh --------------------------------------------------------------------------------------------------------

template <const Dispatched<UnaryFn>& kernel>
struct Plain {
  using Arguments = void();
  static bool valid() { return true; }
  static void run(TensorIterator& iter, const Profile& profile) { run_plain(iter, profile, kernel); }
};

struct SiluOp : Plain<silu_f32> {
  using Functional = at::_ops::silu;
  using InPlace = at::_ops::silu_;
  using Out = at::_ops::silu_out;
};
using Silu = Forward<SiluOp>;
DENSECORE_OP("aten::silu", Silu::functional);
DENSECORE_OP("aten::silu_", Silu::in_place);
DENSECORE_OP("aten::silu.out", Silu::out);

struct SiluBackwardOp : Plain<silu_backward_f32> {
  using Functional = at::_ops::silu_backward;
  using Out = at::_ops::silu_backward_grad_input;
};
using SiluBackward = Backward<SiluBackwardOp>;
DENSECORE_OP("aten::silu_backward", SiluBackward::functional);
DENSECORE_OP("aten::silu_backward.grad_input", SiluBackward::out);

struct MishOp : Plain<mish_f32> {
  using Functional = at::_ops::mish;
  using InPlace = at::_ops::mish_;
  using Out = at::_ops::mish_out;
};
using Mish = Forward<MishOp>;
DENSECORE_OP("aten::mish", Mish::functional);
DENSECORE_OP("aten::mish_", Mish::in_place);
DENSECORE_OP("aten::mish.out", Mish::out);

struct MishBackwardOp : Plain<mish_backward_f32> {
  using Functional = at::_ops::mish_backward;
};
DENSECORE_OP("aten::mish_backward", Backward<MishBackwardOp>::functional);

struct TanhBackwardOp : Plain<tanh_backward_f32> {
  using Functional = at::_ops::tanh_backward;
  using Out = at::_ops::tanh_backward_grad_input;
};
using TanhBackward = Backward<TanhBackwardOp>;
DENSECORE_OP("aten::tanh_backward", TanhBackward::functional);
DENSECORE_OP("aten::tanh_backward.grad_input", TanhBackward::out);

// ---- softplus ----------------------------------------------------------------------------------------------------------------

template <const Dispatched<SoftplusFn>& kernel>
struct SoftplusLoop {
  using Arguments = void(const Scalar&, const Scalar&);
  static bool valid(const Scalar&, const Scalar&) { return true; }
  static void run(TensorIterator& iter, const Profile& profile, const Scalar& beta, const Scalar& threshold) {
    for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile, beta.to<float>(), threshold.to<float>()); });
  }
};

struct SoftplusOp : SoftplusLoop<softplus_f32> {
  using Functional = at::_ops::softplus;
  using Out = at::_ops::softplus_out;
};
using Softplus = Forward<SoftplusOp>;
DENSECORE_OP("aten::softplus", Softplus::functional);
DENSECORE_OP("aten::softplus.out", Softplus::out);

struct SoftplusBackwardOp : SoftplusLoop<softplus_backward_f32> {
  using Functional = at::_ops::softplus_backward;
  using Out = at::_ops::softplus_backward_grad_input;
};
using SoftplusBackward = Backward<SoftplusBackwardOp>;
DENSECORE_OP("aten::softplus_backward", SoftplusBackward::functional);
DENSECORE_OP("aten::softplus_backward.grad_input", SoftplusBackward::out);

// ---- elu (and selu, celu, which call it) -------------------------------------------------------------------------------------

EluScales elu_scales(const Scalar& alpha, const Scalar& scale, const Scalar& input_scale) {
  return {alpha.to<float>() * scale.to<float>(), scale.to<float>(), input_scale.to<float>()};
}

struct EluOp {
  using Functional = at::_ops::elu;
  using InPlace = at::_ops::elu_;
  using Out = at::_ops::elu_out;
  using Arguments = void(const Scalar&, const Scalar&, const Scalar&);
  static bool valid(const Scalar&, const Scalar&, const Scalar&) { return true; }
  static void run(TensorIterator& iter, const Profile& profile, const Scalar& alpha, const Scalar& scale,
                  const Scalar& input_scale) {
    const EluScales scales = elu_scales(alpha, scale, input_scale);
    for_each(iter, profile, [&](const Loop2d& loop) { elu_f32(loop, profile, scales); });
  }
};
using Elu = Forward<EluOp>;
DENSECORE_OP("aten::elu", Elu::functional);
DENSECORE_OP("aten::elu_", Elu::in_place);
DENSECORE_OP("aten::elu.out", Elu::out);

void run_elu_backward(TensorIterator& iter, EluScales scales, bool is_result) {
  const Profile& profile = current_profile();
  const auto& kernel = is_result ? elu_backward_from_output_f32 : elu_backward_f32;
  for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile, scales); });
}

Tensor elu_backward(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, bool is_result,
                    const Tensor& self) {
  if (!is_float(grad) || !is_float(self)) {
    return host::call<at::_ops::elu_backward>(grad, alpha, scale, input_scale, is_result, self);
  }
  if (is_result && alpha.to<double>() < 0) {
    host::error<at::_ops::elu_backward>(grad, alpha, scale, input_scale, is_result, self);
  }
  Tensor grad_input;
  auto iter = TensorIterator::borrowing_binary_op(grad_input, grad, self);
  run_elu_backward(iter, elu_scales(alpha, scale, input_scale), is_result);
  return iter.output();
}
DENSECORE_OP("aten::elu_backward", elu_backward);

Tensor& elu_backward_out(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, bool is_result,
                         const Tensor& self, Tensor& grad_input) {
  if (!is_float(grad) || !is_float(self) || !is_float(grad_input)) {
    return host::call<at::_ops::elu_backward_grad_input>(grad, alpha, scale, input_scale, is_result, self, grad_input);
  }
  if (is_result && alpha.to<double>() < 0) {
    host::error<at::_ops::elu_backward_grad_input>(grad, alpha, scale, input_scale, is_result, self, grad_input);
  }
  auto iter = TensorIterator::borrowing_binary_op(grad_input, grad, self);
  run_elu_backward(iter, elu_scales(alpha, scale, input_scale), is_result);
  return grad_input;
}
DENSECORE_OP("aten::elu_backward.grad_input", elu_backward_out);

// ---- softshrink, hardshrink, hardtanh, hardswish: what differs from the host for NaN and the sign of zeros -----------------------

template <const Dispatched<ShrinkFn>& kernel>
struct ShrinkLoop {
  using Arguments = void(const Scalar&);
  static bool valid(const Scalar&) { return true; }
  static void run(TensorIterator& iter, const Profile& profile, const Scalar& lambda) {
    for_each(iter, profile, [&](const Loop2d& loop) { kernel(loop, profile, lambda.to<float>()); });
  }
};

struct SoftshrinkOp : ShrinkLoop<softshrink_f32> {
  using Functional = at::_ops::softshrink;
  using Out = at::_ops::softshrink_out;
  static bool valid(const Scalar& lambda) {
    return lambda.to<double>() >= 0 && lambda.to<double>() <= std::numeric_limits<float>::max();
  }
};
using Softshrink = Forward<SoftshrinkOp>;
DENSECORE_OP("aten::softshrink", Softshrink::functional);
DENSECORE_OP("aten::softshrink.out", Softshrink::out);

struct SoftshrinkBackwardOp : ShrinkLoop<shrink_backward_f32> {
  using Functional = at::_ops::softshrink_backward;
  using Out = at::_ops::softshrink_backward_grad_input;
};
using SoftshrinkBackward = Backward<SoftshrinkBackwardOp>;
DENSECORE_OP("aten::softshrink_backward", SoftshrinkBackward::functional);
DENSECORE_OP("aten::softshrink_backward.grad_input", SoftshrinkBackward::out);

struct HardshrinkBackwardOp : ShrinkLoop<shrink_backward_f32> {
  using Functional = at::_ops::hardshrink_backward;
  using Out = at::_ops::hardshrink_backward_grad_input;
};
using HardshrinkBackward = Backward<HardshrinkBackwardOp>;
DENSECORE_OP("aten::hardshrink_backward", HardshrinkBackward::functional);
DENSECORE_OP("aten::hardshrink_backward.grad_input", HardshrinkBackward::out);

struct HardtanhBackwardOp {
  using Functional = at::_ops::hardtanh_backward;
  using Out = at::_ops::hardtanh_backward_grad_input;
  using Arguments = void(const Scalar&, const Scalar&);
  static bool valid(const Scalar&, const Scalar&) { return true; }
  static void run(TensorIterator& iter, const Profile& profile, const Scalar& low, const Scalar& high) {
    for_each(iter, profile,
             [&](const Loop2d& loop) { hardtanh_backward_f32(loop, profile, low.to<float>(), high.to<float>()); });
  }
};
using HardtanhBackward = Backward<HardtanhBackwardOp>;
DENSECORE_OP("aten::hardtanh_backward", HardtanhBackward::functional);
DENSECORE_OP("aten::hardtanh_backward.grad_input", HardtanhBackward::out);

struct HardswishBackwardOp : Plain<hardswish_backward_f32> {
  using Functional = at::_ops::hardswish_backward;
};
DENSECORE_OP("aten::hardswish_backward", Backward<HardswishBackwardOp>::functional);

// ---- glu, log_sigmoid --------------------------------------------------------------------------------------------------------

bool glu_splits(const Tensor& self, int64_t dim) {
  const int64_t ndim = self.dim();
  return ndim > 0 && dim >= -ndim && dim < ndim && self.size(dim) % 2 == 0;
}

void run_glu(TensorIterator& iter) { run_plain(iter, current_profile(), glu_f32); }

Tensor glu(const Tensor& self, int64_t dim) {
  if (!is_float(self)) return host::call<at::_ops::glu>(self, dim);
  if (!glu_splits(self, dim)) host::error<at::_ops::glu>(self, dim);
  const int64_t half = self.size(dim) / 2;
  const Tensor first = self.narrow(dim, 0, half), second = self.narrow(dim, half, half);
  Tensor out;
  auto iter = TensorIterator::borrowing_binary_op(out, first, second);
  run_glu(iter);
  return iter.output();
}
DENSECORE_OP("aten::glu", glu);

Tensor& glu_out(const Tensor& self, int64_t dim, Tensor& out) {
  if (!is_float(self) || !is_float(out)) return host::call<at::_ops::glu_out>(self, dim, out);
  if (!glu_splits(self, dim)) host::error<at::_ops::glu_out>(self, dim, out);
  const int64_t half = self.size(dim) / 2;
  const Tensor first = self.narrow(dim, 0, half), second = self.narrow(dim, half, half);
  auto iter = TensorIterator::borrowing_binary_op(out, first, second);
  run_glu(iter);
  return out;
}
DENSECORE_OP("aten::glu.out", glu_out);

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  if (!is_float(self)) return host::call<at::_ops::log_sigmoid_forward>(self);
  const Tensor input = self.contiguous();
  Tensor output = at::empty_like(input, at::MemoryFormat::Contiguous), buffer = at::empty_like(output);
  const float* x = input.const_data_ptr<float>();
  float *y = output.mutable_data_ptr<float>(), *e = buffer.mutable_data_ptr<float>();
  parallel_for(current_profile(), 0, input.numel(), 1,
               [&](int64_t begin, int64_t end) { log_sigmoid_f32(x + begin, y + begin, e + begin, end - begin); });
  return {output, buffer};
}
DENSECORE_OP("aten::log_sigmoid_forward", log_sigmoid_forward);

}  // namespace
}  // namespace densecore
