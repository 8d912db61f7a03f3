// Bindings of flash attention for CPU (ATen/native/transformers/attention.cpp).
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "aten/errors.h"
#include "aten/host_call.h"
#include "aten/op_registration.h"
#include "aten/profile.h"
#include "numerics/attention/flash_attention.h"

namespace densecore {
namespace {

using at::Tensor;
using ForwardOp = at::_ops::_scaled_dot_product_flash_attention_for_cpu;
using BackwardOp = at::_ops::_scaled_dot_product_flash_attention_for_cpu_backward;

// Autograd hands an absent mask on as an undefined tensor.
bool has(const std::optional<Tensor>& mask) { return mask && mask->defined(); }

bool all_float(std::initializer_list<const Tensor*> tensors, const std::optional<Tensor>& mask) {
  for (const Tensor* t : tensors) {
    if (t->scalar_type() != at::kFloat) return false;
  }
  return !has(mask) || mask->scalar_type() == at::kFloat;
}

// These kernels have no variant for a BLAS table with other kinds of orders than Accelerate's.
const Profile& followed_profile(const char* op) {
  const Profile& profile = current_profile();
  if (profile.blas->plain) return profile;
  raise_uncertified(c10::str(op, " on device 'densecore': no kernel has the order of products of ", describe(profile),
                             ". Ways on: an override of the op, e.g. to \"host\"; another DENSECORE_PROFILE"));
}

// What the reference's own checks accept.
bool valid(const Tensor& query, const Tensor& key, const Tensor& value, double dropout_p, const std::optional<Tensor>& mask) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || dropout_p != 0.0) return false;
  if (query.size(3) != value.size(3) || key.size(3) != value.size(3)) return false;
  return !has(mask) || mask->dim() == 2 || mask->dim() == 4;
}

// Query heads that share a key head: more than one in grouped-query attention; 0 if the heads cannot be shared out evenly.
int64_t group_size(const Tensor& query, const Tensor& key) {
  if (key.size(1) == query.size(1)) return 1;
  return key.size(1) > 0 && query.size(1) % key.size(1) == 0 ? query.size(1) / key.size(1) : 0;
}

// The reference reads rows as contiguous and divides by the lengths: what it would compute here is no result.
void check_layout(const char* op, const Tensor& query, const Tensor& key, const Tensor& value) {
  for (const Tensor* t : {&query, &key, &value}) {
    TORCH_CHECK(t->size(3) <= 1 || t->stride(3) == 1, op, " on ", query.device(),
                ": the last dimension of query, key and value must be contiguous; call .contiguous() first");
  }
  TORCH_CHECK(query.size(2) > 0 && key.size(2) > 0, op, " on ", query.device(), ": query and key must not be empty, got lengths ",
              query.size(2), " and ", key.size(2));
  TORCH_CHECK(key.size(0) == query.size(0) && value.size(0) == query.size(0) && group_size(query, key) > 0 &&
                  value.size(1) == key.size(1) && value.size(2) == key.size(2),
              op, " on ", query.device(), ": query, key and value must agree in batch, key and value in heads and length, and the "
              "heads of query must be those of key or a multiple of them; got ",
              query.sizes(), ", ", key.sizes(), ", ", value.sizes());
}

template <class T>
HeadRows<T> head_rows(const Tensor& t) {
  return {static_cast<T*>(t.data_ptr()), t.stride(0), t.stride(1), t.stride(2)};
}

AttentionShape attention_shape(const Tensor& query, const Tensor& key, bool is_causal, const std::optional<Tensor>& mask,
                               std::optional<double> scale) {
  const double factor = scale ? *scale : 1.0 / std::sqrt(static_cast<double>(query.size(3)));
  AttentionShape shape{query.size(0), query.size(1), group_size(query, key), query.size(2), key.size(2), query.size(3),
                       static_cast<float>(factor), is_causal, {}};
  if (has(mask) && mask->numel() > 0) {
    const Tensor wide = mask->dim() == 2 ? mask->unsqueeze(0).unsqueeze(0) : *mask;
    // A first or second dimension of another size than batch or heads must be 1; expand says so otherwise.
    const Tensor m = wide.expand({wide.size(0) == shape.batch ? shape.batch : 1, wide.size(1) == shape.heads ? shape.heads : 1,
                                  shape.queries, shape.keys});
    const auto stride = [&](int64_t d) { return m.size(d) > 1 ? m.stride(d) : 0; };
    shape.mask = {m.const_data_ptr<float>(), stride(0), stride(1), stride(2), stride(3)};
  }
  return shape;
}

std::tuple<Tensor, Tensor> flash_attention_for_cpu(const Tensor& query, const Tensor& key, const Tensor& value, double dropout_p,
                                                   bool is_causal, const std::optional<Tensor>& attn_mask,
                                                   std::optional<double> scale) {
  if (!valid(query, key, value, dropout_p, attn_mask)) {
    host::error<ForwardOp>(query, key, value, dropout_p, is_causal, attn_mask, scale);
  }
  if (!all_float({&query, &key, &value}, attn_mask)) {
    return host::call<ForwardOp>(query, key, value, dropout_p, is_causal, attn_mask, scale);
  }
  check_layout(ForwardOp::name, query, key, value);
  Tensor out = at::empty_like(query);
  Tensor logsumexp = at::empty({query.size(0), query.size(2), query.size(1)}, query.options()).transpose(1, 2);
  if (query.numel() == 0) return {out, logsumexp};
  const AttentionForward tensors{head_rows<const float>(query), head_rows<const float>(key), head_rows<const float>(value),
                                 head_rows<float>(out), head_rows<float>(logsumexp)};
  flash_attention(followed_profile(ForwardOp::name), attention_shape(query, key, is_causal, attn_mask, scale), tensors);
  return {out, logsumexp};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_for_cpu_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                                                                    const Tensor& value, const Tensor& out, const Tensor& logsumexp,
                                                                    double dropout_p, bool is_causal,
                                                                    const std::optional<Tensor>& attn_mask,
                                                                    std::optional<double> scale) {
  if (!grad_out.defined()) return {};
  if (!valid(query, key, value, dropout_p, attn_mask)) {
    host::error<BackwardOp>(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale);
  }
  if (!all_float({&grad_out, &query, &key, &value, &out, &logsumexp}, attn_mask)) {
    return host::call<BackwardOp>(grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale);
  }
  check_layout(BackwardOp::name, query, key, value);
  TORCH_CHECK(grad_out.sizes() == query.sizes() && out.sizes() == query.sizes() && out.stride(3) == 1 &&
                  logsumexp.sizes() == query.sizes().slice(0, 3),
              BackwardOp::name, " on ", query.device(), ": grad_out, out and logsumexp must be those of the forward call");
  const auto zeros = [](const Tensor& t) {
    return at::zeros({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2);
  };
  const Tensor grad_query = zeros(query), grad_key = zeros(key), grad_value = zeros(value);
  if (query.numel() == 0) return {grad_query, grad_key, grad_value};
  // As the reference: [batch, row, head, head_size] in memory, so that no stride is zero.
  const Tensor grad = grad_out.transpose(1, 2).contiguous().transpose(1, 2);
  const AttentionBackward tensors{head_rows<const float>(grad),     head_rows<const float>(query),
                                  head_rows<const float>(key),      head_rows<const float>(value),
                                  head_rows<const float>(out),      head_rows<const float>(logsumexp),
                                  head_rows<float>(grad_query),     head_rows<float>(grad_key),
                                  head_rows<float>(grad_value)};
  flash_attention_backward(followed_profile(BackwardOp::name), attention_shape(query, key, is_causal, attn_mask, scale), tensors);
  return {grad_query, grad_key, grad_value};
}

DENSECORE_OP("aten::_scaled_dot_product_flash_attention_for_cpu", flash_attention_for_cpu);
DENSECORE_OP("aten::_scaled_dot_product_flash_attention_for_cpu_backward", flash_attention_for_cpu_backward);

}  // namespace
}  // namespace densecore
