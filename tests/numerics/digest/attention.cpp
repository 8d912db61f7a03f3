#include "attention/flash_attention.h"

#include "inputs.h"
#include "report.h"

namespace digest {
namespace {

using densecore::AttentionShape;
using densecore::HeadRows;

enum class Mask { kNone, kCausal, kAdditive };
struct Case {
  int64_t batch, heads, group, queries, keys, head_size;
  Mask mask;
  int threads;
};
constexpr Case kCases[] = {
    {1, 1, 1, 1, 1, 1, Mask::kNone, 4},         {1, 2, 1, 5, 7, 8, Mask::kNone, 4},       {2, 2, 1, 33, 33, 17, Mask::kCausal, 4},
    {1, 3, 1, 40, 64, 64, Mask::kAdditive, 3},  {1, 1, 1, 200, 520, 12, Mask::kNone, 2},  {1, 2, 1, 193, 193, 16, Mask::kCausal, 8},
    {1, 1, 1, 770, 60, 4, Mask::kAdditive, 4},  {2, 6, 3, 20, 50, 16, Mask::kCausal, 4},
};

// [batch, head, row, head_size], with rows a little apart.
struct Rows {
  std::vector<float> data;
  int64_t heads, rows, head_size;

  Rows(uint64_t seed, int64_t batch, int64_t heads, int64_t rows, int64_t head_size)
      : data(seed ? floats(seed, batch * heads * rows * (head_size + 3)) : std::vector<float>(batch * heads * rows * (head_size + 3))),
        heads(heads),
        rows(rows),
        head_size(head_size) {}
  template <class T>
  HeadRows<T> view() {
    const int64_t row = head_size + 3;
    return {data.data(), heads * rows * row, rows * row, row};
  }
};

void run(const Case& c, Line* forward, Line* backward) {
  Rows query(1, c.batch, c.heads, c.queries, c.head_size), key(2, c.batch, c.heads / c.group, c.keys, c.head_size);
  Rows value(3, c.batch, c.heads / c.group, c.keys, c.head_size), out(0, c.batch, c.heads, c.queries, c.head_size);
  std::vector<float> logsumexp(c.batch * c.heads * c.queries);
  const HeadRows<float> lse{logsumexp.data(), c.heads * c.queries, c.queries, 1};
  const auto mask = floats(4, c.queries * c.keys);
  AttentionShape shape{c.batch, c.heads, c.group, c.queries, c.keys, c.head_size, 0.3f, c.mask == Mask::kCausal, {}};
  if (c.mask == Mask::kAdditive) shape.mask = {mask.data(), 0, 0, c.keys, 1};
  densecore::Profile profile;
  profile.threads = c.threads;
  densecore::flash_attention(profile, shape,
                             densecore::AttentionForward{query.view<const float>(), key.view<const float>(), value.view<const float>(),
                                                         out.view<float>(), lse});
  if (forward) {
    forward->add(out.data);
    forward->add(logsumexp);
  }
  if (!backward) return;
  Rows grad_out(5, c.batch, c.heads, c.queries, c.head_size), grad_query(0, c.batch, c.heads, c.queries, c.head_size);
  Rows grad_key(0, c.batch, c.heads / c.group, c.keys, c.head_size), grad_value(0, c.batch, c.heads / c.group, c.keys, c.head_size);
  const HeadRows<const float> const_lse{logsumexp.data(), c.heads * c.queries, c.queries, 1};
  const densecore::AttentionBackward tensors{
      grad_out.view<const float>(), query.view<const float>(), key.view<const float>(), value.view<const float>(), out.view<const float>(),
      const_lse, grad_query.view<float>(), grad_key.view<float>(), grad_value.view<float>()};
  densecore::flash_attention_backward(profile, shape, tensors);
  for (const Rows* gradient : {&grad_query, &grad_key, &grad_value}) backward->add(gradient->data);
}

}  // namespace

void attention(Report& report) {
  report.line("flash_attention", "float32", [](Line& line) {
    for (const Case& c : kCases) run(c, &line, nullptr);
  });
  report.line("flash_attention_backward", "float32", [](Line& line) {
    for (const Case& c : kCases) run(c, nullptr, &line);
  });
}

}  // namespace digest
