// Bindings of addmv, dot and vdot (ATen/native/Blas.cpp); mv is torch's composite over addmv_.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addmv_ops.h>
#include <ATen/ops/dot_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/vdot_ops.h>

#include "aten/blas_rules.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/variant/gemm.h"

namespace densecore {
namespace {

using at::Scalar;
using at::Tensor;

bool is_float(const Tensor& t) { return t.scalar_type() == at::kFloat; }

// ---- addmv ---------------------------------------------------------------------------------------------------------------

bool can_addmv(const Tensor& self, const Tensor& mat, const Tensor& vec) {
  return mat.dim() == 2 && vec.dim() == 1 && self.dim() <= 1 && mat.size(1) == vec.size(0) &&
         (mat.size(0) == self.numel() || self.numel() == 1);
}

bool is_leading(int64_t lead, int64_t rows, int64_t columns) { return columns == 1 || lead >= (rows > 1 ? rows : 1); }

// mat @ vec as BLAS is asked for it: mat itself if its columns are contiguous, else the transpose of its rows.
GemvCall as_gemv(const Tensor& mat) {
  const int64_t rows = mat.size(0), columns = mat.size(1);
  GemvCall call{};
  call.a = mat.const_data_ptr<float>();
  if (mat.stride(0) == 1 && is_leading(mat.stride(1), rows, columns)) {
    call.trans = 'N', call.m = rows, call.n = columns, call.lda = mat.stride(1);
  } else {
    call.trans = 'T', call.m = columns, call.n = rows, call.lda = mat.stride(0);
  }
  if (call.n == 1) call.lda = call.m;
  return call;
}

bool suits_gemv(const Tensor& mat) {
  return (mat.stride(0) == 1 && is_leading(mat.stride(1), mat.size(0), mat.size(1))) ||
         (mat.stride(1) == 1 && is_leading(mat.stride(0), mat.size(1), mat.size(0)));
}

void run(const Profile& profile, const GemvCall& call) {
  bool plain = profile.contract == Contraction::kClang && !profile.always_variant;  // torch's own loops
  if (call.suits_blas()) {
    plain = is_plain(profile, {BlasRoutine::kGemv, call.trans, call.outputs(), 1, call.depth(), call.alpha, call.beta});
  }
  if (plain) gemv(profile, call);
  else variant::gemv(profile, call);
}

void addmv_into(Tensor& result, const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  const bool ignore_self = beta.toComplexDouble() == 0.0;
  if (mat.numel() == 0) {
    if (ignore_self) result.zero_();
    else at::mul_out(result, self, at::empty({}, self.options()).fill_(beta));
    return;
  }
  if (!ignore_self && !result.is_same(self)) result.copy_(self.expand({mat.size(0)}));
  const Tensor matrix = suits_gemv(mat) ? mat : mat.contiguous();
  GemvCall call = as_gemv(matrix);
  call.alpha = alpha.to<float>();
  call.beta = beta.to<float>();
  call.x = vec.const_data_ptr<float>();
  call.incx = vec.stride(0);
  call.y = result.mutable_data_ptr<float>();
  call.incy = result.stride(0);
  run(current_profile(), call);
}

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  if (!is_float(self) || !is_float(mat) || !is_float(vec)) return host::call<at::_ops::addmv>(self, mat, vec, beta, alpha);
  if (!can_addmv(self, mat, vec)) host::error<at::_ops::addmv>(self, mat, vec, beta, alpha);
  Tensor result = at::empty({mat.size(0)}, vec.options());
  addmv_into(result, self, mat, vec, beta, alpha);
  return result;
}
DENSECORE_OP("aten::addmv", addmv);

Tensor& addmv_out(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!is_float(self) || !is_float(mat) || !is_float(vec) || !is_float(out)) {
    return host::call<at::_ops::addmv_out>(self, mat, vec, beta, alpha, out);
  }
  if (!can_addmv(self, mat, vec)) host::error<at::_ops::addmv_out>(self, mat, vec, beta, alpha, out);
  at::native::resize_output(out, {mat.size(0)});
  addmv_into(out, self, mat, vec, beta, alpha);
  return out;
}
DENSECORE_OP("aten::addmv.out", addmv_out);

Tensor& addmv_(Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  if (!is_float(self) || !is_float(mat) || !is_float(vec)) return host::call<at::_ops::addmv_>(self, mat, vec, beta, alpha);
  if (!can_addmv(self, mat, vec) || self.dim() != 1 || self.size(0) != mat.size(0)) {
    host::error<at::_ops::addmv_>(self, mat, vec, beta, alpha);
  }
  addmv_into(self, self, mat, vec, beta, alpha);
  return self;
}
DENSECORE_OP("aten::addmv_", addmv_);

// ---- dot -----------------------------------------------------------------------------------------------------------------

bool can_dot(const Tensor& self, const Tensor& other) {
  return self.dim() == 1 && other.dim() == 1 && self.numel() == other.numel();
}

Tensor dot_float(const Tensor& self, const Tensor& other) {
  Tensor result = at::empty({}, self.options());
  const Profile& profile = current_profile();
  const int64_t n = self.numel();
  const float *x = self.const_data_ptr<float>(), *y = other.const_data_ptr<float>();
  const int64_t incx = self.stride(0), incy = other.stride(0);
  float* out = result.mutable_data_ptr<float>();
  if (is_plain(profile, {BlasRoutine::kDot, '*', 1, 1, n})) *out = sdot(profile, n, x, incx, y, incy);
  else *out = variant::sdot(profile, n, x, incx, y, incy);
  return result;
}

Tensor dot(const Tensor& self, const Tensor& other) {
  if (!is_float(self) || !is_float(other)) return host::call<at::_ops::dot>(self, other);
  if (!can_dot(self, other)) host::error<at::_ops::dot>(self, other);
  return dot_float(self, other);
}
DENSECORE_OP("aten::dot", dot);

// Of real vectors the same as dot.
Tensor vdot(const Tensor& self, const Tensor& other) {
  if (!is_float(self) || !is_float(other)) return host::call<at::_ops::vdot>(self, other);
  if (!can_dot(self, other)) host::error<at::_ops::vdot>(self, other);
  return dot_float(self, other);
}
DENSECORE_OP("aten::vdot", vdot);

}  // namespace
}  // namespace densecore
