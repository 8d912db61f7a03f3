// Bindings of mm, addmm, bmm, baddbmm, addbmm, addr and _addmm_activation (ATen/native/LinearAlgebra.cpp).
#include <ATen/ExpandUtils.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_addmm_activation_ops.h>
#include <ATen/ops/addbmm_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/addr_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/relu.h>

#include "aten/Loops.h"
#include "aten/blas_layout.h"
#include "aten/blas_rules.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/blas/addr.h"
#include "numerics/blas/bmm.h"
#include "numerics/blas/gemm.h"
#include "numerics/parallel.h"
#include "numerics/variant/gemm.h"

namespace densecore {
namespace {

using at::Scalar;
using at::Tensor;

template <class... T>
bool all_float(const T&... tensors) {
  return ((tensors.scalar_type() == at::kFloat) && ...);
}

// A dtype that no kernel here claims: one dtype throughout is the registry's matter, a mixture is torch's error.
template <class Op, class... Args>
decltype(auto) other_dtype(bool one_dtype, Args&&... args) {
  if (!one_dtype) host::error<Op>(std::forward<Args>(args)...);
  return host::call<Op>(std::forward<Args>(args)...);
}

template <class... T>
bool one_dtype(const Tensor& first, const T&... others) {
  return ((first.scalar_type() == others.scalar_type()) && ...);
}

bool is_zero(const Scalar& beta) { return beta.toComplexDouble() == 0.0; }

bool may_overlap(const Tensor& a, const Tensor& b) { return a.storage().is_alias_of(b.storage()); }

// ---- the product ---------------------------------------------------------------------------------------------------------

Strides matrix_strides(const Tensor& t) { return {t.stride(-2), t.stride(-1)}; }

// A batch of products (a single one is a batch of one): what BLAS is asked for the first, and how far apart the matrices are.
struct GemmBatch {
  GemmCall call;
  int64_t count;
  int64_t a_step;
  int64_t b_step;
  int64_t c_step;
  int64_t d_step;

  GemmCall at(int64_t i) const {
    GemmCall one = call;
    one.a += i * a_step;
    one.b += i * b_step;
    one.c += i * c_step;
    one.d += i * d_step;
    return one;
  }
};

constexpr int64_t kSerialWork = int64_t{1} << 18;   // multiply-adds of a batch that one thread does
constexpr int64_t kSharedWork = int64_t{1} << 22;  // multiply-adds of one product that all threads do together
constexpr int64_t kManyProducts = 16;              // so many are shared out whole, whatever their size: no thread waits for another

void run(const Profile& profile, const GemmBatch& batch) {
  const GemmCall& call = batch.call;
  const int64_t work = call.m * call.n * call.k;
  if (!is_plain(profile, {BlasRoutine::kGemm, call.transa, call.m, call.n, call.k, call.alpha, call.beta})) {
    for (int64_t i = 0; i < batch.count; ++i) variant::gemm(profile, batch.at(i));
  } else if (batch.count == 1 || (work >= kSharedWork && batch.count < kManyProducts)) {
    for (int64_t i = 0; i < batch.count; ++i) gemm_parallel(profile, batch.at(i));
  } else if (batch.count * work <= kSerialWork) {
    for (int64_t i = 0; i < batch.count; ++i) gemm_serial(profile, batch.at(i));
  } else {
    parallel_run(batch.count, [&](int64_t i) { gemm_serial(profile, batch.at(i)); });
  }
}

int64_t batch_step(const Tensor& t) { return t.dim() == 3 ? t.stride(0) : 0; }

// result := alpha * left @ right + beta * addend, for matrices or batches of them, none empty; float beta of 0 ignores the addend.
void multiply(const Tensor& result, const Tensor& addend, const Tensor& left, const Tensor& right, const Scalar& beta,
              const Scalar& alpha) {
  const int64_t rows = result.size(-2), columns = result.size(-1), k = left.size(-1);
  const BlasLayout c = result_layout(rows, columns, matrix_strides(result));
  const bool turned = c.trans == 'T';  // BLAS computes the transpose: right^T left^T
  const int64_t m = turned ? columns : rows, n = turned ? rows : columns;
  const auto seen = [&](const Tensor& t) { return turned ? matrix_strides(t).turned() : matrix_strides(t); };
  const Tensor& first = turned ? right : left;
  const Tensor& second = turned ? left : right;
  const BlasLayout a = operand_layout(m, k, seen(first), turned), b = operand_layout(k, n, seen(second), turned);
  const Tensor a_data = a.copy ? first.contiguous() : first, b_data = b.copy ? second.contiguous() : second;
  const Tensor c_data = c.copy ? result.mT().clone(at::MemoryFormat::Contiguous).mT() : result;
  const Strides d = seen(addend);
  const GemmCall call{a.trans, b.trans, m, n, k, alpha.to<float>(), a_data.const_data_ptr<float>(), a.lead,
                      b_data.const_data_ptr<float>(), b.lead, beta.to<float>(), addend.const_data_ptr<float>(), d.row, d.column,
                      c_data.mutable_data_ptr<float>(), c.lead};
  run(current_profile(), {call, result.dim() == 3 ? result.size(0) : 1, batch_step(a_data), batch_step(b_data), batch_step(c_data),
                          batch_step(addend)});
  if (c.copy) result.copy_(c_data);
}

// addmm_impl_cpu_: self has the result's sizes and may be the result.
void addmm_into(const Tensor& result, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  if (result.numel() == 0) return;
  if (mat1.size(1) == 0) {
    if (is_zero(beta)) {
      result.zero_();
    } else {
      if (!self.is_same(result)) result.copy_(self);
      result.mul_(beta);
    }
    return;
  }
  // The reference copies self into the result first; reading it in place gives the same sums, unless writing would change it.
  const bool copy = !is_zero(beta) && !self.is_same(result) && may_overlap(self, result);
  if (copy) result.copy_(self);
  multiply(result, copy ? result : self, mat1, mat2, beta, alpha);
}

// ---- mm, addmm -----------------------------------------------------------------------------------------------------------

bool can_multiply(const Tensor& mat1, const Tensor& mat2) {
  return mat1.dim() == 2 && mat2.dim() == 2 && mat1.size(1) == mat2.size(0);
}

Tensor mm(const Tensor& self, const Tensor& mat2) {
  if (!all_float(self, mat2)) return other_dtype<at::_ops::mm>(one_dtype(self, mat2), self, mat2);
  if (!can_multiply(self, mat2)) host::error<at::_ops::mm>(self, mat2);
  Tensor result = at::empty({self.size(0), mat2.size(1)}, self.options());
  addmm_into(result, result, self, mat2, 0, 1);
  return result;
}
DENSECORE_OP("aten::mm", mm);

Tensor& mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (!all_float(self, mat2, out)) return other_dtype<at::_ops::mm_out>(one_dtype(self, mat2, out), self, mat2, out);
  if (!can_multiply(self, mat2)) host::error<at::_ops::mm_out>(self, mat2, out);
  at::native::resize_output(out, {self.size(0), mat2.size(1)});
  addmm_into(out, out, self, mat2, 0, 1);
  return out;
}
DENSECORE_OP("aten::mm.out", mm_out);

bool can_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2) {
  return can_multiply(mat1, mat2) && at::is_expandable_to(self.sizes(), {mat1.size(0), mat2.size(1)});
}

Tensor expand_to_product(const Tensor& self, const Tensor& mat1, const Tensor& mat2) {
  return self.expand({mat1.size(0), mat2.size(1)});
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, mat1, mat2)) {
    return other_dtype<at::_ops::addmm>(one_dtype(self, mat1, mat2), self, mat1, mat2, beta, alpha);
  }
  if (!can_addmm(self, mat1, mat2)) host::error<at::_ops::addmm>(self, mat1, mat2, beta, alpha);
  Tensor result = at::empty({mat1.size(0), mat2.size(1)}, self.options());
  addmm_into(result, expand_to_product(self, mat1, mat2), mat1, mat2, beta, alpha);
  return result;
}
DENSECORE_OP("aten::addmm", addmm);

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!all_float(self, mat1, mat2, out)) {
    return other_dtype<at::_ops::addmm_out>(one_dtype(self, mat1, mat2, out), self, mat1, mat2, beta, alpha, out);
  }
  if (!can_addmm(self, mat1, mat2)) host::error<at::_ops::addmm_out>(self, mat1, mat2, beta, alpha, out);
  at::native::resize_output(out, {mat1.size(0), mat2.size(1)});
  const bool in_place = self.is_same(out);
  addmm_into(out, in_place ? out : expand_to_product(self, mat1, mat2), mat1, mat2, beta, alpha);
  return out;
}
DENSECORE_OP("aten::addmm.out", addmm_out);

Tensor& addmm_(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, mat1, mat2)) {
    return other_dtype<at::_ops::addmm_>(one_dtype(self, mat1, mat2), self, mat1, mat2, beta, alpha);
  }
  if (!can_multiply(mat1, mat2) || self.sizes() != at::IntArrayRef({mat1.size(0), mat2.size(1)})) {
    host::error<at::_ops::addmm_>(self, mat1, mat2, beta, alpha);
  }
  addmm_into(self, self, mat1, mat2, beta, alpha);
  return self;
}
DENSECORE_OP("aten::addmm_", addmm_);

Tensor& activate(Tensor& result, bool use_gelu) { return use_gelu ? at::gelu_(result) : at::relu_(result); }

Tensor addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha, bool use_gelu) {
  if (!all_float(self, mat1, mat2)) {
    return other_dtype<at::_ops::_addmm_activation>(one_dtype(self, mat1, mat2), self, mat1, mat2, beta, alpha, use_gelu);
  }
  if (!can_addmm(self, mat1, mat2)) host::error<at::_ops::_addmm_activation>(self, mat1, mat2, beta, alpha, use_gelu);
  Tensor result = densecore::addmm(self, mat1, mat2, beta, alpha);
  return activate(result, use_gelu);
}
DENSECORE_OP("aten::_addmm_activation", addmm_activation);

Tensor& addmm_activation_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha, bool use_gelu,
                             Tensor& out) {
  if (!all_float(self, mat1, mat2, out)) {
    return other_dtype<at::_ops::_addmm_activation_out>(one_dtype(self, mat1, mat2, out), self, mat1, mat2, beta, alpha, use_gelu, out);
  }
  if (!can_addmm(self, mat1, mat2)) host::error<at::_ops::_addmm_activation_out>(self, mat1, mat2, beta, alpha, use_gelu, out);
  return activate(densecore::addmm_out(self, mat1, mat2, beta, alpha, out), use_gelu);
}
DENSECORE_OP("aten::_addmm_activation.out", addmm_activation_out);

// ---- bmm, baddbmm --------------------------------------------------------------------------------------------------------

bool can_multiply_batches(const Tensor& batch1, const Tensor& batch2) {
  return batch1.dim() == 3 && batch2.dim() == 3 && batch1.size(0) == batch2.size(0) && batch1.size(2) == batch2.size(1);
}

at::DimVector batch_sizes(const Tensor& batch1, const Tensor& batch2) { return {batch1.size(0), batch1.size(1), batch2.size(2)}; }

template <class T>
MatrixBatch<T> as_batch(const Tensor& t, T* data) {
  return {data, t.stride(0), t.stride(1), t.stride(2)};
}

// bmm_out_or_baddbmm_: the result holds beta's addend already.
void bmm_into(const Tensor& result, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (result.numel() == 0) return;
  const int64_t m = batch1.size(1), n = batch2.size(2), k = batch1.size(2);
  if (k == 0) {
    if (is_zero(beta)) result.zero_();
    else result.mul_(beta);
  } else if (m * n * k < kBmmLoopLimit) {
    const BmmCall call{batch1.size(0), m, n, k, alpha.to<float>(), beta.to<float>(), as_batch(batch1, batch1.const_data_ptr<float>()),
                       as_batch(batch2, batch2.const_data_ptr<float>()), as_batch(result, result.mutable_data_ptr<float>())};
    const Profile& profile = current_profile();
    if (profile.contract == Contraction::kClang) bmm_loops(profile, call);
    else variant::bmm_loops(profile, call);
  } else {
    multiply(result, result, batch1, batch2, beta, alpha);
  }
}

Tensor bmm(const Tensor& self, const Tensor& mat2) {
  if (!all_float(self, mat2)) return other_dtype<at::_ops::bmm>(one_dtype(self, mat2), self, mat2);
  if (!can_multiply_batches(self, mat2)) host::error<at::_ops::bmm>(self, mat2);
  Tensor result = at::empty(batch_sizes(self, mat2), self.options());
  bmm_into(result, self, mat2, 0, 1);
  return result;
}
DENSECORE_OP("aten::bmm", bmm);

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  if (!all_float(self, mat2, out)) return other_dtype<at::_ops::bmm_out>(one_dtype(self, mat2, out), self, mat2, out);
  if (!can_multiply_batches(self, mat2)) host::error<at::_ops::bmm_out>(self, mat2, out);
  at::native::resize_output(out, batch_sizes(self, mat2));
  bmm_into(out, self, mat2, 0, 1);
  return out;
}
DENSECORE_OP("aten::bmm.out", bmm_out);

bool can_baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2) {
  return can_multiply_batches(batch1, batch2) && at::is_expandable_to(self.sizes(), batch_sizes(batch1, batch2));
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, batch1, batch2)) {
    return other_dtype<at::_ops::baddbmm>(one_dtype(self, batch1, batch2), self, batch1, batch2, beta, alpha);
  }
  if (!can_baddbmm(self, batch1, batch2)) host::error<at::_ops::baddbmm>(self, batch1, batch2, beta, alpha);
  const at::DimVector sizes = batch_sizes(batch1, batch2);
  Tensor result = at::empty(sizes, self.options());
  if (!is_zero(beta)) result.copy_(self.expand(sizes));
  bmm_into(result, batch1, batch2, beta, alpha);
  return result;
}
DENSECORE_OP("aten::baddbmm", baddbmm);

Tensor& baddbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!all_float(self, batch1, batch2, out)) {
    return other_dtype<at::_ops::baddbmm_out>(one_dtype(self, batch1, batch2, out), self, batch1, batch2, beta, alpha, out);
  }
  if (!can_baddbmm(self, batch1, batch2)) host::error<at::_ops::baddbmm_out>(self, batch1, batch2, beta, alpha, out);
  const at::DimVector sizes = batch_sizes(batch1, batch2);
  at::native::resize_output(out, sizes);
  if (!is_zero(beta) && !self.is_same(out)) out.copy_(self.expand(sizes));
  bmm_into(out, batch1, batch2, beta, alpha);
  return out;
}
DENSECORE_OP("aten::baddbmm.out", baddbmm_out);

Tensor& baddbmm_(Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, batch1, batch2)) {
    return other_dtype<at::_ops::baddbmm_>(one_dtype(self, batch1, batch2), self, batch1, batch2, beta, alpha);
  }
  if (!can_multiply_batches(batch1, batch2) || self.sizes() != batch_sizes(batch1, batch2)) {
    host::error<at::_ops::baddbmm_>(self, batch1, batch2, beta, alpha);
  }
  bmm_into(self, batch1, batch2, beta, alpha);
  return self;
}
DENSECORE_OP("aten::baddbmm_", baddbmm_);

// ---- addbmm: the products of a batch, one after the other into one matrix --------------------------------------------------

bool can_addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2) {
  return can_multiply_batches(batch1, batch2) && at::is_expandable_to(self.sizes(), {batch1.size(1), batch2.size(2)});
}

void addbmm_into(const Tensor& result, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (!is_zero(beta) && !self.is_same(result)) result.copy_(self);
  if (batch1.size(0) == 0) {
    if (is_zero(beta)) result.zero_();
    else result.mul_(beta);
    return;
  }
  for (int64_t i = 0; i < batch1.size(0); ++i) {
    addmm_into(result, result, batch1.select(0, i), batch2.select(0, i), i == 0 ? beta : Scalar(1), alpha);
  }
}

Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, batch1, batch2)) {
    return other_dtype<at::_ops::addbmm>(one_dtype(self, batch1, batch2), self, batch1, batch2, beta, alpha);
  }
  if (!can_addbmm(self, batch1, batch2)) host::error<at::_ops::addbmm>(self, batch1, batch2, beta, alpha);
  Tensor result = at::empty({batch1.size(1), batch2.size(2)}, self.options());
  addbmm_into(result, self.expand(result.sizes()), batch1, batch2, beta, alpha);
  return result;
}
DENSECORE_OP("aten::addbmm", addbmm);

Tensor& addbmm_out(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!all_float(self, batch1, batch2, out)) {
    return other_dtype<at::_ops::addbmm_out>(one_dtype(self, batch1, batch2, out), self, batch1, batch2, beta, alpha, out);
  }
  if (!can_addbmm(self, batch1, batch2)) host::error<at::_ops::addbmm_out>(self, batch1, batch2, beta, alpha, out);
  const at::DimVector sizes{batch1.size(1), batch2.size(2)};
  const Tensor addend = self.sizes() == sizes ? self : self.expand(sizes);
  out.resize_as_(addend);
  addbmm_into(out, addend, batch1, batch2, beta, alpha);
  return out;
}
DENSECORE_OP("aten::addbmm.out", addbmm_out);

Tensor& addbmm_(Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, batch1, batch2)) {
    return other_dtype<at::_ops::addbmm_>(one_dtype(self, batch1, batch2), self, batch1, batch2, beta, alpha);
  }
  if (!can_addbmm(self, batch1, batch2)) host::error<at::_ops::addbmm_>(self, batch1, batch2, beta, alpha);
  return densecore::addbmm_out(self, batch1, batch2, beta, alpha, self);
}
DENSECORE_OP("aten::addbmm_", addbmm_);

// ---- addr ----------------------------------------------------------------------------------------------------------------

bool can_addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2) {
  return vec1.dim() == 1 && vec2.dim() == 1 && at::is_expandable_to(self.sizes(), {vec1.size(0), vec2.size(0)});
}

bool real_factors(const Scalar& beta, const Scalar& alpha) {
  return !beta.isComplex() && !alpha.isComplex() && !beta.isBoolean() && !alpha.isBoolean();
}

void addr_into(Tensor& result, const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha) {
  auto iter = at::TensorIteratorConfig()
                  .set_check_mem_overlap(true)
                  .add_output(result)
                  .add_const_input(self)
                  .add_owned_const_input(vec1.reshape({vec1.size(0), 1}))
                  .add_const_input(vec2)
                  .allow_cpu_scalars(true)
                  .build();
  const Profile& profile = current_profile();
  for_each(iter, profile, [&](const Loop2d& loop) { addr_f32(loop, profile, beta.to<float>(), alpha.to<float>()); });
}

Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha) {
  if (!all_float(self, vec1, vec2)) return host::call<at::_ops::addr>(self, vec1, vec2, beta, alpha);
  if (!can_addr(self, vec1, vec2) || !real_factors(beta, alpha)) host::error<at::_ops::addr>(self, vec1, vec2, beta, alpha);
  const at::DimVector sizes{vec1.size(0), vec2.size(0)};
  Tensor result = at::empty(sizes, self.options());
  addr_into(result, self.expand(sizes), vec1, vec2, beta, alpha);
  return result;
}
DENSECORE_OP("aten::addr", addr);

Tensor& addr_out(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  if (!all_float(self, vec1, vec2, out)) return host::call<at::_ops::addr_out>(self, vec1, vec2, beta, alpha, out);
  if (!can_addr(self, vec1, vec2) || !real_factors(beta, alpha)) host::error<at::_ops::addr_out>(self, vec1, vec2, beta, alpha, out);
  const at::DimVector sizes{vec1.size(0), vec2.size(0)};
  at::native::resize_output(out, sizes);
  addr_into(out, self.expand(sizes), vec1, vec2, beta, alpha);
  return out;
}
DENSECORE_OP("aten::addr.out", addr_out);

}  // namespace
}  // namespace densecore
